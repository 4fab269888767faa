/** What a stream says, in the terms of the HTML standard. */
export interface EventStreamHandlers {
  /** An event is dispatched. */
  onEvent: (type: string, data: string) => void;
  /** The last event id changes, with or without an event. */
  onLastEventId: (id: string) => void;
  onRetry: (ms: number) => void;
}

/**
 * Interprets an event stream as browsers do (HTML standard §9.2.6). What is not followed by a blank line is discarded.
 */
export class EventStreamParser {
  readonly #handlers: EventStreamHandlers;
  #text = "";
  #isStart = true;
  #type = "";
  #data = "";
  #id: string | undefined;

  constructor(handlers: EventStreamHandlers) {
    this.#handlers = handlers;
  }

  feed(text: string): void {
    this.#text += text;
    if (this.#isStart && this.#text !== "") {
      this.#text = this.#text.replace(/^\uFEFF/, "");
      this.#isStart = false;
    }
    // A CR at the end may be the first half of a line break.
    for (let end; (end = /\r\n|\n|\r(?!$)/.exec(this.#text)) !== null;) {
      const line = this.#text.slice(0, end.index);
      this.#text = this.#text.slice(end.index + end[0].length);
      this.#interpret(line);
    }
  }

  #interpret(line: string): void {
    if (line === "") return this.#dispatch();
    const [, field = "", value = ""] = /^([^:]*)(?:: ?(.*))?$/s.exec(line) ??
      [];
    if (field === "event") this.#type = value;
    else if (field === "data") this.#data += `${value}\n`;
    else if (field === "id" && !value.includes("\0")) this.#id = value;
    else if (field === "retry" && /^\d+$/.test(value)) {
      this.#handlers.onRetry(Number(value));
    }
  }

  #dispatch(): void {
    if (this.#id !== undefined) this.#handlers.onLastEventId(this.#id);
    if (this.#data !== "") {
      this.#handlers.onEvent(this.#type || "message", this.#data.slice(0, -1));
    }
    this.#type = "";
    this.#data = "";
  }
}
