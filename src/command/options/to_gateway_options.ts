import type { GatewayOptions } from "../../options.ts";
import type { Option } from "./option_kinds.ts";
import {
  OPTION_NAMES,
  type OptionName,
  OPTIONS,
  type StartOptions,
} from "./option_table.ts";

/** All options of the gateway, so that a new one causes a type error until the table or the process sets it. */
type EveryOption = {
  readonly [Name in keyof Required<GatewayOptions>]: GatewayOptions[Name];
};

/** The options of the gateway that the table of options names. */
type NamedOptions = {
  readonly [
    Flag in OptionName as GatewayName<typeof OPTIONS[Flag]>
  ]: StartOptions[Flag];
};

type GatewayName<Entry> = Entry extends { readonly gateway: infer Name }
  ? Name & string
  : never;

/** What every gateway of a process gets from it. */
export type ProcessServices =
  & Required<Pick<GatewayOptions, "store" | "log" | "clock">>
  & Pick<EveryOption, "instanceId" | "masterKey" | "telemetry">;

/** The options of the gateway that are no options of the command. */
type OtherOptions =
  & Required<Pick<GatewayOptions, "variables" | "neverServed">>
  & Pick<EveryOption, "manifest">
  & { readonly services: ProcessServices };

/** Converts the options of the command to options of the gateway. */
export function toGatewayOptions(
  options: StartOptions,
  { variables, manifest, neverServed, services }: OtherOptions,
) {
  return {
    ...namedOptions(options),
    variables,
    manifest,
    neverServed,
    instanceId: services.instanceId,
    masterKey: services.masterKey,
    store: services.store,
    log: services.log,
    telemetry: services.telemetry,
    clock: services.clock,
    manifestPath: undefined, // the parsed manifest contains it
    loadPatternLibrary: undefined,
    random: Math.random,
    separateHealth: options["health-port"] !== undefined,
  } satisfies EveryOption;
}

function namedOptions(options: StartOptions): NamedOptions {
  const named: Record<string, unknown> = {};
  for (const flag of OPTION_NAMES) {
    const { gateway }: Option<unknown> = OPTIONS[flag];
    if (gateway !== undefined) named[gateway] = options[flag];
  }
  return named as NamedOptions;
}

/** Returns the options in effect as text. The code for that is loaded only for the status page. */
export async function shownOptions(
  options: StartOptions,
): Promise<Record<string, string>> {
  const { formatOptions } = await import("./help.ts");
  return formatOptions(options);
}
