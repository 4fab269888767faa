/** Writes a line to standard output, or to another stream, without the console. */
export function writeLine(text: string, stream = Deno.stdout): void {
  let rest = new TextEncoder().encode(`${text}\n`);
  while (rest.length > 0) rest = rest.subarray(stream.writeSync(rest));
}
