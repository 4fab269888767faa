import { assertEquals } from "@std/assert";
import {
  parseCommandLine,
  readOptions,
} from "../../../src/cli/options/read_options.ts";
import {
  type StartContext,
  startWarnings,
} from "../../../src/cli/start/check_start.ts";

/** Returns the beginning of each warning. */
function warningsFor(
  args: string[],
  context: Partial<StartContext> = {},
): string[] {
  const options = readOptions({
    flags: parseCommandLine(args).flags,
    environment: {},
    manifest: {},
  });
  const warnings = startWarnings(options, {
    isStoreShared: false,
    sharesDefaultDatabase: false,
    isModeSet: false,
    defaultManifest: undefined,
    ...context,
  });
  return warnings.map((warning) => warning.split(":")[0] ?? "");
}

const NOTHING = "there is nothing to serve but the endpoints under /rep/";
const SHARED_DATABASE =
  "gateways of different apps share Deno's default database if they run from the same URL";
const NO_MANIFEST = "the manifest in this directory is not used";
const NO_EFFECT = "--hot-reload has no effect";
const SIGHUP_ONLY = "nothing notices a change of a file before SIGHUP";
const SERVED = "--static-dir=dist";
const HOT = "--hot-reload";

/** What is warned about, for options and circumstances. */
const CASES: readonly (readonly [
  args: string[],
  context: Partial<StartContext>,
  warnings: string[],
])[] = [
  [[], {}, [NOTHING]],
  [[SERVED], {}, []],
  [[SERVED], { defaultManifest: ".rep.yaml" }, [NO_MANIFEST]],
  [[SERVED, "--manifest=a.yaml"], { defaultManifest: ".rep.yaml" }, []],
  [[SERVED], { sharesDefaultDatabase: true }, [SHARED_DATABASE]],
  [["--upstream=127.0.0.1:3000"], {}, []],
  [["--mode=embedded"], {}, []],
  [[SERVED, "--static-cache=64"], {}, [
    "--static-cache 64 is too little for any file",
  ]],
  [[SERVED, "--static-cache=64KiB"], {}, []],
  [[SERVED, "--static-cache=0"], {}, []],
  [[SERVED, HOT], {}, [NO_EFFECT]],
  [[SERVED, HOT, "--hot-reload-mode=poll"], { isModeSet: true }, [NO_EFFECT]],
  [[SERVED, HOT], { isStoreShared: true }, []],
  [[SERVED, HOT, "--env-file=a.env"], {}, [SIGHUP_ONLY]],
  [[SERVED, HOT, "--manifest=a.yaml"], { isStoreShared: true }, [
    SIGHUP_ONLY,
  ]],
  [[SERVED, HOT, "--env-file=a.env"], { isModeSet: true }, []],
  [[SERVED, HOT, "--env-file=a.env", "--hot-reload-mode=file_watch"], {
    isModeSet: true,
  }, []],
  [[SERVED, HOT, "--watch-path=/etc/rep", "--hot-reload-mode=file_watch"], {
    isModeSet: true,
  }, []],
  [[SERVED, "--env-file=a.env"], {}, []],
];

for (const [args, context, warnings] of CASES) {
  Deno.test(`startWarnings() for ${args.join(" ")} ${JSON.stringify(context)}: ${warnings.length}`, () => {
    assertEquals(warningsFor(args, context), warnings);
  });
}
