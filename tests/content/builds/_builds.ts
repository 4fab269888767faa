import { dirname } from "@std/path";
import { memoryStore } from "../../../src/engines/memory.ts";
import { LATE_MS } from "../../../src/content/builds/directory_gate.ts";
import type { GatewayOptions } from "../../../src/options.ts";
import { FakeClock, settle } from "../../../tools/fake_clock.ts";
import { setUp, type TestGateway } from "../../_gateway.ts";
import { TempDirectory } from "../../_temp.ts";

/** Files by their paths in a directory. */
export type Files = Readonly<Record<string, string>>;

/** A build: a page with a name, and files. */
export function buildOf(name: string, files: Files = {}): Files {
  return { ...files, "index.html": `<!doctype html><title>${name}</title>` };
}

/** A directory with directories of apps, and one in which builds are kept. */
export class Directories implements AsyncDisposable {
  readonly #directory: TempDirectory;

  private constructor(directory: TempDirectory) {
    this.#directory = directory;
  }

  static async make(): Promise<Directories> {
    return new Directories(await TempDirectory.make());
  }

  at(name: string): string {
    return this.#directory.at(name);
  }

  /** Writes files into a directory. */
  async write(directory: string, files: Files): Promise<void> {
    for (const [name, text] of Object.entries(files)) {
      const path = this.at(`${directory}/${name}`);
      await Deno.mkdir(dirname(path), { recursive: true });
      await Deno.writeTextFile(path, text);
    }
  }

  /** Puts a build in the place of what a directory contains. */
  async replace(directory: string, files: Files): Promise<void> {
    await Deno.remove(this.at(directory), { recursive: true });
    await this.write(directory, files);
  }

  /** Sets the times of a file or directory. */
  async age(name: string, ms: number): Promise<void> {
    const time = new Date(Date.now() - ms);
    await Deno.utime(this.at(name), time, time);
  }

  /** Returns how long ago something was written. */
  async ageOf(name: string): Promise<number> {
    const { mtime } = await Deno.stat(this.at(name));
    return Date.now() - (mtime?.getTime() ?? 0);
  }

  /** Returns all files below a directory, with their texts. */
  async read(directory: string): Promise<Record<string, string>> {
    const files: Record<string, string> = {};
    const root = this.at(directory);
    async function walk(prefix: string): Promise<void> {
      for await (const entry of Deno.readDir(`${root}/${prefix}`)) {
        const name = prefix + entry.name;
        if (entry.isDirectory) await walk(`${name}/`);
        else files[name] = await Deno.readTextFile(`${root}/${name}`);
      }
    }
    await walk("");
    return files;
  }

  /** Returns the names of an app's kept files. */
  async kept(folder = "_", keep = "keep"): Promise<string[]> {
    const files = await this.read(`${keep}/${folder}/files`)
      .catch(() => ({}));
    return Object.keys(files).toSorted();
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#directory[Symbol.asyncDispose]();
  }
}

/** A gateway that keeps builds. */
export interface KeepingGateway extends TestGateway {
  readonly clock: FakeClock;
  /** The status of a response, or its body. */
  read(path: string): Promise<string>;
  problems(): Promise<string[] | undefined>;
  /** Lets what was looked at be looked at again. */
  lookAgain(): Promise<void>;
  /** Lets time pass after what is running has ended, so that it does not become late. Then begins what is due. */
  later(ms: number): Promise<void>;
}

/** Opens a gateway for a directory. */
export async function serve(
  directories: Directories,
  directory: string,
  options: GatewayOptions = {},
  clock = new FakeClock(Date.now()),
): Promise<KeepingGateway> {
  const opened = await setUp({}, {
    hotReload: false,
    staticDir: directories.at(directory),
    keepBuilds: directories.at("keep"),
    immutable: ["assets/*"],
    store: memoryStore(),
    ...options,
    clock,
  });
  return {
    ...opened,
    clock,
    async read(path) {
      const response = await opened.ask(path);
      const text = await response.text();
      return response.ok ? text : String(response.status);
    },
    async problems() {
      const response = await opened.ask("/rep/health");
      return (await response.json()).problems;
    },
    lookAgain: () => clock.tick(1_000),
    async later(ms) {
      await swept(clock);
      clock.pass(ms);
      await clock.tick(0);
    },
    async [Symbol.asyncDispose]() {
      await opened[Symbol.asyncDispose]();
      await swept(clock);
    },
  };
}

/** Waits for the end of what runs in the directory, such as a sweep, for which nothing waits in a gateway. */
export async function swept(clock: FakeClock): Promise<void> {
  for (let turns = 0; turns < 10; turns++) {
    await settle();
    const isRunning = clock.isWaitingFor(LATE_MS, LATE_MS + 1); // a copy of a small file may take a little longer
    if (isRunning) turns = 0;
  }
}
