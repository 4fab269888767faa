/** An event; the same literal after one of these is the name of a metric. */
const EVENT =
  /(?<!(?:count|record|observe|history)\(\s*|INSTRUMENTS\[)"(rep\.[a-z_.]+)"(?!:)/g;

/** Returns the names of all events that the code may log. */
export async function readLogEvents(): Promise<ReadonlySet<string>> {
  return new Set(
    [...(await readCode()).matchAll(EVENT)].map(([, event]) => String(event)),
  );
}

/** A call such as `log.warn("rep.start.warning"`. */
const CALL = /\.(debug|info|warn|error)\(\s*"(rep\.[a-z_.]+)"/g;

/** Returns each event with a level at which the code writes it. Events whose level is computed are missing. */
export async function readLogLevels(): Promise<
  { event: string; level: string }[]
> {
  return [...(await readCode()).matchAll(CALL)].map((
    [, level = "", event = ""],
  ) => ({
    event,
    level: level.toUpperCase(),
  }));
}

async function readCode(): Promise<string> {
  const sources = [
    await readSources("src"),
    await Deno.readTextFile("main.ts"),
    await Deno.readTextFile("serve.ts"),
  ];
  return sources.join("\n");
}

async function readSources(directory: string): Promise<string> {
  const texts = await Array.fromAsync(
    Deno.readDir(directory),
    ({ name, isDirectory }) => {
      const path = `${directory}/${name}`;
      return isDirectory ? readSources(path) : Deno.readTextFile(path);
    },
  );
  return texts.join("\n");
}
