import { join } from "@std/path";

/** How many of the last characters that a program printed an error shows. */
const SHOWN_CHARACTERS = 2_000;

/**
 * Neither systemd nor the limits of the machine are needed: an unprivileged sandbox may have less than podman's
 * defaults ask for.
 */
const CONTAINERS_CONF = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=32768:32768"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`;

/** Runs a program to its end. @returns What it printed. @throws {Error} If it fails. */
export async function run(
  program: string,
  args: readonly string[],
  options: Pick<Deno.CommandOptions, "cwd" | "env"> = {},
): Promise<string> {
  const command = new Deno.Command(program, {
    args: [...args],
    stdin: "null",
    ...options,
  });
  const { success, stdout, stderr } = await command.output();
  const decoder = new TextDecoder();
  const out = decoder.decode(stdout);
  if (success) return out;
  const text = (out + decoder.decode(stderr)).slice(-SHOWN_CHARACTERS);
  throw new Error(`Cannot run ${program} ${args.join(" ")}: ${text}`);
}

/** Podman with images, containers and volumes of its own, which nothing else on the machine uses. */
export class Podman {
  /** Runs it with these settings, for programs that run podman themselves. */
  readonly program: string;
  readonly #folder: string;

  private constructor(folder: string, program: string) {
    this.#folder = folder;
    this.program = program;
  }

  /** @param folder Where everything is kept. */
  static async open(folder: string): Promise<Podman> {
    const config = join(folder, "containers.conf");
    const program = join(folder, "podman");
    await Deno.mkdir(folder, { recursive: true });
    await Deno.writeTextFile(config, CONTAINERS_CONF);
    const roots = `--root ${folder}/storage --runroot ${folder}/run`;
    await Deno.writeTextFile(
      program,
      `#!/bin/sh\nCONTAINERS_CONF=${config} exec podman ${roots} "$@"\n`,
    );
    await Deno.chmod(program, 0o755);
    return new Podman(folder, program);
  }

  /** Runs one of its commands. @returns What it printed, without the last line break. */
  async run(...args: string[]): Promise<string> {
    const options = { cwd: this.#folder };
    return (await run(this.program, args, options)).trimEnd();
  }

  /** Returns whether there is an image with this name. */
  async hasImage(name: string): Promise<boolean> {
    return await this.run("image", "exists", name).then(
      () => true,
      () => false,
    );
  }

  /**
   * Returns whether the kernel has ended a process of a container for want of memory since the last call: podman's monitor
   * writes an empty file then, where podman was started.
   */
  async hadTooLittleMemory(): Promise<boolean> {
    const mark = join(this.#folder, "oom");
    return await Deno.remove(mark).then(() => true, () => false);
  }

  /** Removes all containers and volumes. Images stay, for the next time. */
  async clear(): Promise<void> {
    await this.run("pod", "rm", "--all", "--force");
    await this.run("rm", "--all", "--force", "--time", "0");
    await this.run("volume", "prune", "--force");
  }
}
