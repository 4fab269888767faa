/** A response, to be compared as a whole. */
export interface Answer {
  status: number;
  headers: Record<string, string>;
  /** What the JSON says; the text if it is none; nothing if there is no body. */
  body: unknown;
}

/** Reads a response to its end. */
export async function answerOf(response: Response): Promise<Answer> {
  const { status, headers } = response;
  const text = await response.text();
  const isJson = headers.get("content-type")?.includes("json") && text !== "";
  return { status, headers: Object.fromEntries(headers), body: isJson ? JSON.parse(text) : text || undefined };
}
