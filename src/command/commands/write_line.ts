/** Writes one or more lines to standard output, without the console. */
export function writeLine(text: string): void {
  let rest = new TextEncoder().encode(`${text}\n`);
  while (rest.length > 0) rest = rest.subarray(Deno.stdout.writeSync(rest));
}
