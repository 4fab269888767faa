import type { Log } from "../core/observe/log.ts";
import { systemClock } from "../core/values/clock.ts";
import { commandIn, withoutDashes } from "./commands/command_table.ts";
import { readStart, type Start } from "./options/read_start.ts";
import { programVersion } from "./program_version.ts";
import {
  exitWithStartError,
  openLog,
  openTelemetryIfEnabled,
} from "./start/start_log.ts";
import { limitStreams } from "./start/limit_streams.ts";
import { Output } from "./start/output.ts";
import { onSignals } from "./start/signals.ts";
import { checkStart } from "./start/check_start.ts";
import { Service } from "./start/service.ts";

/**
 * Runs the gateway until a signal stops it, or another command.
 *
 * @param program What users type to run it.
 */
export async function main(
  args: readonly string[],
  program?: string,
): Promise<void> {
  const command = commandIn(args);
  if (command === undefined) return await runGateway(args, program);
  const { runCommand } = await import("./commands/run_command.ts");
  const { denoIo } = await import("./commands/deno_io.ts");
  const rest = withoutDashes(args).slice(1);
  Deno.exit(await runCommand(command, rest, denoIo(program)));
}

async function runGateway(
  args: readonly string[],
  program?: string,
): Promise<void> {
  const output = new Output();
  const start = await readStart(args)
    .catch((error) => exitWithStartError(error, output));
  if (start === "help") {
    const { helpText } = await import("./options/help.ts");
    return print(helpText(program));
  }
  if (start === "version") return print(await programVersion());

  const log = openLog(start, output);
  await serve(start, log, output)
    .catch((error) => exitWithStartError(error, output, log));
}

async function serve(start: Start, log: Log, output: Output): Promise<void> {
  await checkStart(start.options);
  const service = new Service(limitStreams(start, log), {
    log,
    droppedLines: () => output.stdout.dropped,
    telemetry: await openTelemetryIfEnabled(log),
    clock: systemClock,
  });
  await service.bind();
  onSignals({
    log,
    exit: output.exit,
    reload: () => service.reloadVariablesAndTls({ isRequested: true }),
    stop: () => service.stop(),
  });
  await service.start();
  const { link } = service;
  if (link !== undefined && Deno.stdout.isTerminal()) output.stdout.add(link);
}

function print(text: string): void {
  // deno-lint-ignore no-console -- help and version belong to standard output
  console.log(text);
}
