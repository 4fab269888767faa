import { decodeContent } from "../../coding/decode_content.ts";
import { messageOf } from "../../observe/log.ts";
import { BrokenBodyError } from "./upstream_failure.ts";

/**
 * Decodes the content coding of a response, if it is supported. A body that cannot be decoded ends in a
 * {@linkcode BrokenBodyError}.
 *
 * @param onInvalid Called once if the content coding is invalid; not if the response's own body broke off.
 */
export function decodeResponse(response: Response, onInvalid: (error: Error) => void): Response {
  const decoded = decodeContent(response);
  if (decoded === response || decoded.body === null) return decoded;
  const { status, statusText, headers } = decoded;
  return new Response(reportInvalid(decoded.body, onInvalid), { status, statusText, headers });
}

function reportInvalid(body: ReadableStream<Uint8Array>, onInvalid: (error: Error) => void) {
  const reader = body.getReader();
  return new ReadableStream<Uint8Array>({
    async pull(controller) {
      try {
        const { done, value } = await reader.read();
        if (done) controller.close();
        else controller.enqueue(value);
      } catch (error) {
        if (error instanceof BrokenBodyError) throw error;
        const invalid = new BrokenBodyError(
          `Cannot decode the body: ${messageOf(error)}`,
        );
        onInvalid(invalid);
        throw invalid;
      }
    },
    cancel: (reason) => reader.cancel(reason),
  }, { highWaterMark: 0 });
}
