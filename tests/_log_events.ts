/** An event; the same literal after one of these is the name of a metric. */
const EVENT = /(?<!count\(|record\(|observe\(|LabelOf<|INSTRUMENTS\[)"(rep\.[a-z_.]+)"(?!: \{)/g;

/** Returns the names of all events that the code may log. */
export async function readLogEvents(): Promise<ReadonlySet<string>> {
  const sources = [await readSources("src"), await Deno.readTextFile("main.ts"), await Deno.readTextFile("serve.ts")];
  return new Set([...sources.join("\n").matchAll(EVENT)].map(([, event]) => String(event)));
}

async function readSources(directory: string): Promise<string> {
  const texts = await Array.fromAsync(Deno.readDir(directory), ({ name, isDirectory }) => {
    const path = `${directory}/${name}`;
    return isDirectory ? readSources(path) : Deno.readTextFile(path);
  });
  return texts.join("\n");
}
