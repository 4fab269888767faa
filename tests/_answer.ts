/** A response that tests compare as a whole value. */
export interface Answer {
  status: number;
  headers: Record<string, string>;
  /** The parsed JSON, or else the text; `undefined` without a body. */
  body: unknown;
}

/** Reads a response to its end. */
export async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  const text = await response.text();
  const isJson = headers.get("content-type")?.includes("json") && text !== "";
  return {
    status,
    headers: Object.fromEntries(headers),
    body: isJson ? JSON.parse(text) : text || undefined,
  };
}
