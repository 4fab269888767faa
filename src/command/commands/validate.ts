import { localFiles } from "../../files/local_files.ts";
import {
  MAX_SITE_VARIABLES,
  readSiteFolders,
  type SiteFolder,
  tooManyVariables,
} from "../sites/site_folder.ts";
import type { CommandIo } from "./command_io.ts";
import type { CommandArguments } from "./command_table.ts";
import { printReport, type Report, validateOne } from "./manifest_commands.ts";
import { escapeInvisible } from "../../core/values/visible_text.ts";
import { terminalJson } from "./terminal_text.ts";

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
  if (sites !== undefined) return await validateSites(sites, line, io);
  const report = await validateOne(line, io);
  if (line.json) io.print(terminalJson(report));
  else printReport(report, io);
  return report.valid ? 0 : 1;
}

/** Checks each site of a directory as a gateway would at its start, and prints what is wrong with which. */
async function validateSites(
  directory: string,
  line: CommandArguments,
  io: CommandIo,
): Promise<number> {
  const folders = await readSiteFolders({
    directory,
    releases: line.releases,
    files: await localFiles(),
    now: () => io.clock.now(),
  });
  const reports: SiteReport[] = [];
  for (const folder of folders) {
    reports.push({ site: folder.name, ...await checkSite(folder, line, io) });
  }
  if (line.json) io.print(terminalJson(reports));
  else {
    for (const one of reports) {
      io.print(escapeInvisible(`${one.site}:`));
      printReport(one, io);
    }
  }
  return reports.every(({ valid }) => valid) ? 0 : 1;
}

/** Checks a site with what it has of its own, and what it takes from the command line. */
async function checkSite(
  folder: SiteFolder,
  line: CommandArguments,
  io: CommandIo,
): Promise<Report> {
  const { name, issues, manifest, envFile } = folder;
  if (issues.length > 0) {
    return { valid: false, issues, warnings: [], variables: [] };
  }
  const own = { ...line, app: name, manifest: manifest ?? line.manifest };
  const found = await validateOne(own, io, { envFile });
  const ownVariables = found.variables.filter(({ source }) =>
    source === envFile
  );
  if (ownVariables.length <= MAX_SITE_VARIABLES) return found;
  const issue = tooManyVariables(envFile, ownVariables.length);
  return { ...found, valid: false, issues: [...found.issues, issue] };
}
