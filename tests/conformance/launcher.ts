import { join } from "@std/path";
import { TempDirectory } from "../_temp.ts";
import { expect } from "./check.ts";
import { Subject, TIMEOUT_MS } from "./subject.ts";

/** The gateway that is asked. */
export interface Target {
  /** The program and its arguments; `{dir}` is a directory of its own for each start. */
  readonly command: readonly string[];
  /** Where it will listen, without a slash at the end. */
  readonly url: string;
  /** Where its health report is if it has a port of its own. */
  readonly healthUrl: string | undefined;
  /** How long it may take for what is neither a start nor an end. @default {10_000} */
  readonly timeoutMs?: number;
}

/** What a check needs to know in advance. */
export interface Setup {
  /** Variables of the environment. */
  readonly variables?: Readonly<Record<string, string>>;
  readonly envFile?: string;
  readonly manifest?: string;
  /** Options by the names of their flags; they are set in the environment (§7.2). */
  readonly options?: Readonly<Record<string, string>>;
  readonly flags?: readonly string[];
  /** The files of the site. @default {a page} */
  readonly site?: Readonly<Record<string, string>>;
}

const PAGE = {
  "index.html":
    "<!doctype html><html><head><title>App</title></head><body></body></html>",
};

/** Starts the gateway as checks want it, one process at a time, since all of them listen at the same URL. */
export class Launcher implements AsyncDisposable {
  readonly target: Target;
  #setup: Setup | undefined;
  #subject: Subject | undefined;
  #directory: TempDirectory | undefined;

  constructor(target: Target) {
    this.target = target;
  }

  /** Returns a gateway with this setup: the running one, if it has the same. */
  async start(setup: Setup): Promise<Subject> {
    if (this.#subject && this.#setup === setup) return this.#subject;
    expect(
      await this.#launch(setup),
      `expected a start, got ${
        this.#subject?.output.slice(-3).join(" ").slice(0, 300)
      }`,
    );
    return this.#subject!;
  }

  /** Starts the running gateway again, with all it has stored. */
  async restart(): Promise<Subject> {
    await this.#subject![Symbol.asyncDispose]();
    this.#subject = this.#spawn(this.#setup!);
    expect(await this.#subject.hasStarted(), "expected a second start");
    return this.#subject;
  }

  /**
   * Requires that a gateway does not start.
   *
   * @param reason What has to be in its log, since it may also have failed for another reason.
   */
  async expectNoStart(
    what: string,
    setup: Setup,
    reason: string,
  ): Promise<void> {
    expect(!await this.#launch(setup), `expected no start with ${what}`);
    const output = this.#subject!.output.join(" ");
    expect(
      output.includes(reason),
      `expected a log that names ${reason}, got ${output.slice(0, 300)}`,
    );
  }

  /** Replaces the env file. */
  async writeEnvFile(text: string): Promise<void> {
    await this.#directory!.write("app.env", text);
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#subject?.[Symbol.asyncDispose]();
    await this.#directory?.[Symbol.asyncDispose]();
    this.#subject = undefined;
  }

  async #launch(setup: Setup): Promise<boolean> {
    await this[Symbol.asyncDispose]();
    this.#setup = setup;
    this.#directory = await TempDirectory.make();
    await Deno.mkdir(this.#directory.at("site"));
    for (const [name, text] of Object.entries(setup.site ?? PAGE)) {
      await this.#directory.write(join("site", name), text);
    }
    if (setup.envFile !== undefined) await this.writeEnvFile(setup.envFile);
    if (setup.manifest !== undefined) {
      await this.#directory.write("rep.yaml", setup.manifest);
    }
    this.#subject = this.#spawn(setup);
    return await this.#subject.hasStarted();
  }

  #spawn(setup: Setup): Subject {
    const { command, url, timeoutMs = TIMEOUT_MS } = this.target;
    const args = [...command, ...setup.flags ?? []].map((part) =>
      part.replaceAll("{dir}", this.#directory!.path)
    );
    const env = { ...inherited(), ...setup.variables, ...this.#options(setup) };
    return new Subject({ command: args, env, url, timeoutMs });
  }

  /** Returns the variables that set the options. */
  #options({ envFile, manifest, options }: Setup): Record<string, string> {
    const directory = this.#directory!;
    const all: Record<string, string> = {
      "mode": "embedded",
      "static-dir": directory.at("site"),
      "port": new URL(this.target.url).port,
    };
    if (envFile !== undefined) all["env-file"] = directory.at("app.env");
    if (manifest !== undefined) all["manifest"] = directory.at("rep.yaml");
    Object.assign(all, options);
    const variables: Record<string, string> = {};
    for (const [name, value] of Object.entries(all)) {
      const text = value.replaceAll("{dir}", directory.path);
      variables[variableOf(name)] = text;
    }
    return variables;
  }
}

/** The environment of this process, without what would configure a gateway. */
function inherited(): Record<string, string> {
  return Object.fromEntries(
    Object.entries(Deno.env.toObject()).filter(([name]) =>
      !name.startsWith("REP_")
    ),
  );
}

function variableOf(option: string): string {
  return `REP_GATEWAY_${option.toUpperCase().replaceAll("-", "_")}`;
}
