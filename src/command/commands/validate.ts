import { messageOf } from "../../core/observe/log.ts";
import { localFiles } from "../../files/local_files.ts";
import {
  MAX_SITE_VARIABLES,
  readSiteFolders,
  type SiteFolder,
  tooManyVariables,
} from "../sites/site_folder.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import {
  printReport,
  type Report,
  validateApp,
  validateOne,
} from "./manifest_commands.ts";
import { escapeInvisible, terminalJson } from "./terminal_text.ts";

/** The report of a site. */
interface SiteReport extends Report {
  readonly site: string;
}

/** Checks everything that a gateway would check at startup: for one app, or for each site. */
export async function validate(
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const { sites } = line;
  if (sites === undefined) return await validateApp(line, io);
  return await validateSites(sites, line, io);
}

/** Checks each site of a directory as a gateway would at its start, and prints what is wrong with which. */
async function validateSites(
  directory: string,
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const reports: SiteReport[] = [];
  try {
    const folders = await readSiteFolders({
      directory,
      releases: line.releases,
      files: await localFiles(),
      now: () => io.clock.now(),
    });
    for (const folder of folders) {
      reports.push({ site: folder.name, ...await report(folder, line, io) });
    }
  } catch (error) {
    io.printError(
      escapeInvisible(
        `Cannot read --sites "${directory}": ${messageOf(error)}`,
      ),
    );
    return 1;
  }
  if (line.json) io.print(terminalJson(reports.map(toJson), 2));
  else {
    for (const one of reports) {
      io.print(escapeInvisible(`${one.site}:`));
      printReport(one, io);
    }
  }
  return reports.every(({ issues }) => issues.length === 0) ? 0 : 1;
}

function toJson({ site, ...report }: SiteReport) {
  return { site, valid: report.issues.length === 0, ...report };
}

/** Checks a site with what it has of its own, and what it takes from the command line. */
async function report(
  folder: SiteFolder,
  line: CommandArguments,
  io: CommandIo,
): Promise<Report> {
  const { name, issues, manifest, envFile } = folder;
  if (issues.length > 0) return { issues, warnings: [], variables: [] };
  const own = { ...line, app: name, manifest: manifest ?? line.manifest };
  const found = await validateOne(own, io, { envFile });
  const ownVariables = found.variables.filter(({ source }) =>
    source === envFile
  );
  if (ownVariables.length <= MAX_SITE_VARIABLES) return found;
  const issue = tooManyVariables(envFile, ownVariables.length);
  return { ...found, issues: [...found.issues, issue] };
}
