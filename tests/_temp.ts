import { join } from "@std/path";

/** A temporary directory that is removed on disposal. */
export class TempDirectory implements AsyncDisposable {
  readonly path: string;

  private constructor(path: string) {
    this.path = path;
  }

  static async make(
    files: Record<string, string> = {},
  ): Promise<TempDirectory> {
    const path = await Deno.realPath(await Deno.makeTempDir()); // a link leads to it on macOS
    const directory = new TempDirectory(path);
    const earlier = new Date(Date.now() - 1_500); // a change is noticed although the file system's clock may be coarse
    for (const [name, text] of Object.entries(files)) {
      await Deno.utime(await directory.write(name, text), earlier, earlier);
    }
    return directory;
  }

  /** Returns the path of an entry of the directory. */
  at(name: string): string {
    return join(this.path, name);
  }

  async write(name: string, text: string): Promise<string> {
    await Deno.writeTextFile(this.at(name), text);
    return this.at(name);
  }

  /**
   * Mounts or updates files as Kubernetes does for a ConfigMap: each is a symlink into `..data`, which is itself a
   * symlink to the folder of a version, and is replaced atomically.
   */
  async mount(version: string, files: Record<string, string>): Promise<void> {
    await Deno.mkdir(this.at(`..${version}`));
    for (const [name, text] of Object.entries(files)) {
      await this.write(`..${version}/${name}`, text);
    }
    await Deno.symlink(`..${version}`, this.at("..data_tmp"));
    await Deno.rename(this.at("..data_tmp"), this.at("..data"));
    for (const name of Object.keys(files)) {
      await Deno.symlink(`..data/${name}`, this.at(name)).catch(ignoreExisting);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await Deno.remove(this.path, { recursive: true });
  }
}

function ignoreExisting(error: unknown): void {
  if (!(error instanceof Deno.errors.AlreadyExists)) throw error; // the link already leads to the new version
}
