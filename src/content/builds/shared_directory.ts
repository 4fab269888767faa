import {
  type FoundFile,
  ifThere,
  streamFile,
  versionOf,
} from "../static/found_file.ts";
import type { Clock } from "../../core/values/clock.ts";
import type { DirectoryGate } from "./directory_gate.ts";

/** The largest file whose text is read. */
const MAX_TEXT_BYTES = 16 * 1024 * 1024;

/** Larger files are not read as a whole. */
const MAX_READ_BYTES = 1024 * 1024;

/** The slowest network on which a file is copied, in bytes per millisecond. */
const MIN_SPEED = 1_024;

/** A directory that several gateways write to. Names are relative to it. */
export class SharedDirectory {
  readonly #path: string;
  readonly #gate: DirectoryGate;

  constructor(path: string, gate: DirectoryGate) {
    this.#path = path;
    this.#gate = gate;
  }

  /** Returns `undefined` if nothing is there. */
  async stat(name: string): Promise<Deno.FileInfo | undefined> {
    return await ifThere(this.#run(() => Deno.lstat(this.#at(name))));
  }

  /** Returns when something was written, by the clock of the directory; -Infinity if nothing is there. */
  async writtenAt(name: string): Promise<number> {
    const stats = await this.stat(name);
    return stats?.mtime?.getTime() ?? -Infinity;
  }

  /** Returns the entries of a directory; none if there is no directory. */
  async list(name: string): Promise<Deno.DirEntry[]> {
    const read = () => Array.fromAsync(Deno.readDir(this.#at(name)));
    return await ifThere(this.#run(read)) ?? [];
  }

  /** Returns the text of a regular file; an empty one if there is none. */
  async read(name: string): Promise<string> {
    const stats = await this.stat(name);
    if (!stats?.isFile || stats.size > MAX_TEXT_BYTES) return "";
    const read = () => Deno.readTextFile(this.#at(name));
    return await ifThere(this.#run(read)) ?? "";
  }

  /**
   * Writes a text. In a full directory, a text that is there stays, and only gets the present time, by the clock of this
   * machine: without that, nothing would become old, and nothing would be removed.
   */
  async write(name: string, text: string): Promise<void> {
    try {
      await this.#put(name, (path) => Deno.writeTextFile(path, text));
    } catch (error) {
      const isThere = isFull(error) && await this.stat(name) !== undefined;
      if (!isThere) throw error;
      const now = new Date();
      await this.#run(() => Deno.utime(this.#at(name), now, now))
        .catch(() => Promise.reject(error)); // it is of another user
    }
  }

  /**
   * Copies a file, without its permissions.
   *
   * @throws {Deno.errors.NotFound} If it is changed meanwhile.
   */
  async copy(name: string, file: FoundFile, clock: Clock): Promise<void> {
    await this.#put(name, async (path) => {
      const content = file.stats.size > MAX_READ_BYTES
        ? await streamFile(file, true, clock).read()
        : await Deno.readFile(file.path);
      await Deno.writeFile(path, content!);
      const stats = await Deno.stat(file.path);
      if (versionOf({ path: file.path, stats }) === versionOf(file)) return;
      throw new Deno.errors.NotFound(`"${file.path}" was changed meanwhile`);
    }, file.stats.size / MIN_SPEED);
  }

  /** Removes a file, or a directory with all that is in it. */
  async remove(name: string): Promise<void> {
    const remove = () => Deno.remove(this.#at(name), { recursive: true });
    await ifThere(this.#run(remove));
  }

  /** Writes a file under another name, which is never served, and renames it: others see it as a whole or not at all. */
  async #put(
    name: string,
    write: (path: string) => Promise<void>,
    ms?: number,
  ): Promise<void> {
    const path = this.#at(name);
    const parent = path.slice(0, path.lastIndexOf("/"));
    const temporary = `${parent}/.${crypto.randomUUID()}`;
    await this.#run(async () => {
      await Deno.mkdir(parent, { recursive: true });
      try {
        await write(temporary);
        await Deno.rename(temporary, path);
      } catch (error) {
        await Deno.remove(temporary).catch(() => {}); // the first error says more
        throw error;
      }
    }, ms);
  }

  #run<T>(work: () => Promise<T>, ms?: number): Promise<T> {
    return this.#gate.run("keep", work, ms);
  }

  #at(name: string): string {
    return `${this.#path}/${name}`;
  }
}

/** Returns whether there is no room for a file, or none for its user. */
function isFull(error: unknown): boolean {
  const { code } = error as { code?: string };
  return code === "ENOSPC" || code === "EDQUOT";
}
