/**
 * Runs before the command in a replica of the drill: at SIGUSR2 its clock moves by the milliseconds in the file that
 * DRILL_CLOCK names. Timers and `performance.now()` are not affected, as on a machine whose clock is set.
 */
const RealDate = Date;
let offsetMs = 0;

class MovedDate extends RealDate {
  constructor(...args: unknown[]) {
    super(...(args.length === 0 ? [MovedDate.now()] : args) as [number]);
  }

  static override now(): number {
    return RealDate.now() + offsetMs;
  }
}

globalThis.Date = MovedDate as DateConstructor;

const path = Deno.env.get("DRILL_CLOCK")!;
Deno.addSignalListener("SIGUSR2", () => {
  offsetMs = Number(Deno.readTextFileSync(path));
});
