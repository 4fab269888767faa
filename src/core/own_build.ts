import type { Content } from "./content.ts";

/** Which build of the app this process delivers: a text that changes when another build replaces it. */
export class OwnBuild {
  /** Called when a look has found another build. What it returns is waited for. */
  onChange: () => Promise<void> = () => Promise.resolve();
  readonly #content: Content | undefined;
  readonly #revision: string | undefined;
  #id: string | undefined;

  /** @param revision What the app was built from. It counts if the content does not know its build. */
  constructor(content: Content | undefined, revision: string | undefined) {
    this.#content = content;
    this.#revision = revision;
  }

  /** The ID that the last look has found; `undefined` if it is unknown. */
  get id(): string | undefined {
    return this.#id;
  }

  /** Looks which build is delivered now. While the content cannot be read, that is the last known one. */
  async look(): Promise<string | undefined> {
    const id = await this.#read().catch(() => this.#id); // requests say what cannot be read
    if (id !== this.#id) {
      this.#id = id;
      await this.onChange();
    }
    return id;
  }

  async #read(): Promise<string | undefined> {
    const content = this.#content;
    return content?.build === undefined
      ? this.#revision
      : await content.build();
  }
}
