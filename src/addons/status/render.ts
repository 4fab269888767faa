import {
  internalHostRule,
  requireAllowedHost,
} from "../../core/http/allowed_hosts.ts";
import type { RouteContext } from "../../core/http/routes.ts";
import type { AddonParts } from "../../core/addon.ts";
import { visibleJson } from "../../core/values/visible_text.ts";
import {
  createStatus,
  MAX_SHOWN,
  type Status,
  type StatusOptions,
} from "./status.ts";
import { STATUS_PAGE, STATUS_POLICY } from "./status_page.ts";

const JSON_HEADERS = {
  "content-type": "application/json",
  "cache-control": "no-store",
  "vary": "accept",
  "x-content-type-options": "nosniff",
};
const PAGE_HEADERS = {
  ...JSON_HEADERS,
  "content-type": "text/html; charset=utf-8",
  "content-security-policy": STATUS_POLICY,
};

/**
 * Handles `GET /status`: a page for operators, or the same as JSON for those who ask for JSON and not for HTML. Nothing
 * can be changed with it.
 *
 * @throws {Problem} 421 if the host is neither an address, nor `localhost`, nor allowed.
 */
export async function respondWithStatus(
  { headers }: Request,
  { url }: Pick<RouteContext, "url">,
  parts: AddonParts,
  options: StatusOptions,
): Promise<Response> {
  requireAllowedHost(url.origin, internalHostRule(options.allowedHosts));
  const status = await createStatus(parts, options);
  const accept = headers.get("accept") ?? "";
  if (accept.includes("json") && !accept.includes("html")) {
    return new Response(visibleJson(status), { headers: JSON_HEADERS });
  }
  return new Response(renderPage(status), { headers: PAGE_HEADERS });
}

function renderPage(status: Status): string {
  const title = markup`<title>${status.place && `${status.place}: `}`;
  // First what is wrong, then what explains it.
  const main = markup`<main>${renderHealth(status)}
${renderFacts(status)}
${renderSites(status)}
${renderRollout(status)}
${renderEvents(status)}
${renderVariables(status)}
${renderOptions(status)}`;
  return STATUS_PAGE
    .replace("<title>", () => String(title))
    .replace("<main>", () => String(main));
}

const STATES = {
  starting: "Starting",
  healthy: "Healthy",
  degraded: "Degraded, but serving",
  stopping: "Stopping",
};

const PROBLEMS: Readonly<Record<string, string>> = {
  config_rejected:
    "The last reload was rejected. Correct the issues below and reload. Do not restart: the gateway would not start.",
  store_unavailable:
    "The store is unavailable, for the reason below: changes wait. Do not restart gateways until it is back.",
  change_waiting:
    "A change of PUBLIC variables waits for the store. Until it is published, pages keep the previous values.",
  store_emptied:
    "The store came back without the variables that were set, and got them back from memory. Find out why, then send SIGHUP.",
  certificate_rejected:
    "The new TLS certificate was rejected; the previous one stays in use. Replace its files with a matching pair, and reload.",
  certificate_ended:
    "The TLS certificate has expired, and clients reject it. Renew it, replace its files, and reload.",
  other_app:
    "Another app uses the same store. Only the app that came first publishes. Give each app its own name or its own database.",
  other_master_key:
    "Another replica has a different master key: neither can issue keys for the other's pages. Set the same key for all replicas, or for none.",
  clock_skew:
    "The clock of this process or of another replica is wrong: keys for pages are rejected. Synchronize the clocks of the machines (NTP).",
  builds_not_kept:
    "The files of this build cannot be written to --keep-builds; rep.builds.not_kept in the log says why.",
  site_rejected:
    "A site was rejected: the table of sites says why. Correct its files.",
  sites_missing:
    "Many sites are gone at once, and are still served. If they were removed, send SIGHUP; otherwise, bring their directory back.",
};

const PAGES = {
  active: "Pages have the PUBLIC values of this process's configuration.",
  superseded:
    "Pages have the PUBLIC values of a newer configuration than this process has. This is normal during a rollout.",
  rolledBack:
    "Pages have the PUBLIC values of an earlier configuration instead of this process's own.",
  unannounced:
    "Pages have the PUBLIC values of the previous configuration until the store is back.",
};

const NO_KEY =
  "Pages have no SENSITIVE values, because their key is in the store. Do not restart gateways that have already read it.";

function renderHealth(status: Status): Markup {
  const { problems_since = {}, time, issues, conflicts } = status;
  const { store, configuration } = status;
  const { state, rollback } = configuration;
  const isRolledBack = state === "superseded" && rollback !== undefined;
  const pages = PAGES[isRolledBack ? "rolledBack" : state];
  const lacksKey = !status.has_master_key && status.variables.sensitive > 0;
  const paragraphs = Object.entries(problems_since).map(([type, since]) =>
    markup`<p>${PROBLEMS[type] ?? type} Since ${ago(since, time)}.</p>`
  );
  const reasons = [...issues, ...conflicts];
  if (store.failure !== undefined) reasons.push(store.failure);
  const { certificate_rejection } = status;
  if (certificate_rejection) reasons.push(certificate_rejection);
  return markup`<section class="health ${status.status}">
<p class="state" role="status">${STATES[status.status]}</p>
${paragraphs}${list(reasons)}
<p>${pages}</p><p>${rollback && `This is a ${rollback}.`}</p><p>${
    lacksKey ? NO_KEY : ""
  }</p></section>`;
}

function renderFacts(status: Status): Markup {
  const { configuration, store, time } = status;
  const { hash, state, active, loaded } = configuration;
  const own = nameOf(hash, configuration.revision);
  const activeName = nameOf(active, configuration.active_revision);
  const other = active === hash ? "" : `; ${activeName} is active`;
  const availability = store.available ? "available" : "unavailable";
  const sources = Object.entries(status.sources);
  const counts = sources.map(([source, count]) => `${source} (${count})`);
  const rejections = Object.entries(status.rejected_keys)
    .filter(([, number]) => number > 0)
    .map(([reason, number]) => `${number} ${reason}`);
  const certificate = status.certificate_end &&
    markup`until ${timeOf(status.certificate_end)}`;
  const facts = {
    "Place": status.place,
    "Configuration": `${own}, ${state}${other}`,
    "Build": status.build,
    "Loaded": ago(loaded, time),
    "From": counts.join(", "),
    "Store": markup`${store.engine}, ${availability} since ${
      ago(store.since, time)
    }`,
    "Certificate": certificate,
    "Open streams": status.streams,
    "Session keys issued": status.keys,
    "Session keys rejected": rejections.join(", ") || "none",
    "Version": status.version,
    "Running for": duration(status.uptime_seconds),
    "As of": timeOf(time),
  };
  return markup`<dl>
${Object.entries(facts).map(([name, value]) => fact(name, value))}</dl>`;
}

function nameOf(hash: string, revision: string | undefined): string {
  return revision === undefined ? hash : `${hash} (${revision})`;
}

/** Returns nothing for what is not known. */
function fact(name: string, value: Content): Content {
  if (value === undefined || value === "") return "";
  return markup`<div><dt>${name}</dt><dd>${value}</dd></div>\n`;
}

function renderSites({ sites }: Status): Markup {
  if (sites === undefined) return markup``;
  const all = Object.entries(sites);
  const rows = all.slice(0, MAX_SHOWN).map(([name, site]) => {
    const { status, problems_since, issues, build } = site;
    const problems = problems_since && Object.entries(problems_since);
    return {
      site: status === "rejected" // nothing is served
        ? name
        : markup`<a href="?site=${encodeURIComponent(name)}">${name}</a>`,
      status,
      problems: problems &&
        list(
          problems.map(([type, since]) =>
            markup`${type} since ${timeOf(since)}`
          ),
        ),
      "rejected since": site.rejected_since && timeOf(site.rejected_since),
      reasons: issues && list(issues),
      build,
    };
  });
  return markup`<h2>Sites: ${count(rows.length, all.length)}</h2>
${table("Sites", rows)}`;
}

function renderRollout({ rollout }: Status): Markup {
  const present = rollout.filter(({ state }) => !/left|dead/.test(state));
  const rows = rollout.map((member) => ({
    ...member,
    version: member.version ?? "unknown", // it is older
    build: member.build ?? (member.version ? "none" : "unknown"),
    rank: present.length > 1 ? member.rank : undefined, // only a comparison says something
    heartbeat: timeOf(member.heartbeat),
  }));
  return markup`<h2>Rollout</h2>
<p>Up to eight representatives of each configuration, as of the last answer from the store.</p>
${table("Rollout", rows)}`;
}

function renderEvents({ events }: Status): Markup {
  const rows = events.map(({ id: _, by, why, ...event }) => ({
    ...event,
    time: timeOf(event.time),
    who: by ?? "unknown",
    why: why ?? "unknown",
  }));
  return markup`<h2>Events</h2>${table("Events", rows)}`;
}

function renderVariables(status: Status): Markup {
  const { variables, warnings, sensitive, configuration } = status;
  const { hash, active, active_revision } = configuration;
  const activeName = nameOf(active, active_revision);
  const note = hash === active
    ? ""
    : `These are the values of this process's own configuration. Pages have those of ${activeName}.`;
  const texts = warnings.map(({ name, detail }) =>
    `Warning: ${name}: ${detail}`
  );
  return markup`<h2>Variables</h2>${list(texts)}
<h3>PUBLIC: ${count(status.public.length, variables.public)}</h3><p>${note}</p>
${table("PUBLIC variables", status.public)}
<h3>SENSITIVE: ${count(sensitive.length, variables.sensitive)}</h3>${
    list(sensitive)
  }
<h3>SERVER: ${variables.server}</h3>`;
}

function count(shown: number, all: number): Content {
  return shown < all ? `the first ${shown} of ${all}` : all;
}

function renderOptions({ options }: Status): Markup {
  const rows = Object.entries(options)
    .map(([option, value]) => ({ option, value }));
  return markup`<details><summary>Options</summary>
${table("Options", rows)}</details>`;
}

function list(items: readonly Content[]): Markup {
  return markup`<ul>${items.map((item) => markup`<li>${item}</li>`)}</ul>`;
}

/**
 * Returns a table with a row for each item. The first item names the columns; those that no item has are left out. It
 * scrolls, also by keyboard, so that a long one does not hide what is below it. The page's script shows the hint if need
 * be.
 */
function table(
  label: string,
  items: readonly Readonly<Record<string, Content>>[],
): Markup {
  const [first] = items;
  if (first === undefined) return markup`<p>None</p>`;
  const names = Object.keys(first)
    .filter((name) => items.some((item) => item[name] !== undefined));
  return markup`<div><p class="hint">Scroll the table to see all of it</p>
<div class="table" role="region" aria-label="${label}" tabindex="0"><table>
<tr>${names.map((name) => markup`<th scope="col">${name}</th>`)}</tr>
${
    items.map((item) =>
      markup`<tr>${names.map((name) => cell(item[name]))}</tr>\n`
    )
  }</table></div></div>`;
}

function cell(value: Content): Markup {
  return markup`<td>${value === "" ? markup`<i>(empty)</i>` : value}</td>`;
}

function ago(time: string, now: string): Markup {
  const seconds = (Date.parse(now) - Date.parse(time)) / 1_000;
  return markup`${timeOf(time)}, ${duration(seconds)} ago`;
}

/** Times look as in the log and in JSON, to be searched for. */
function timeOf(time: string): Markup {
  return markup`<time>${time}</time>`;
}

/** Formats the largest unit of which there are two. */
function duration(seconds: number): string {
  const units = [["days", 86_400], ["h", 3_600], ["min", 60]] as const;
  const [unit, size] = units.find(([, size]) => seconds >= 2 * size) ??
    ["s", 1];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}

/** HTML in which all values are escaped. */
class Markup extends String {}

/** A value in a template. */
type Content = Markup | string | number | undefined | readonly Content[];

/** The tag of templates of HTML. */
function markup(
  parts: TemplateStringsArray,
  ...contents: readonly Content[]
): Markup {
  return new Markup(
    parts.map((part, index) => part + toText(contents[index])).join(""),
  );
}

function toText(content: Content): string {
  if (Array.isArray(content)) return content.map(toText).join("");
  return content instanceof Markup
    ? content.toString()
    : escape(String(content ?? ""));
}

/** Also makes visible what hides or reverses the text around it: control and format characters. */
function escape(text: string): string {
  const toEntity = (character: string) => `&#${character.charCodeAt(0)};`;
  const toEscape = (character: string) =>
    `\\u{${character.codePointAt(0)?.toString(16)}}`;
  return text.replace(/[&<>"']/g, toEntity).replace(
    /[\p{Cc}\p{Cf}\p{Cs}\u2028\u2029]/gu,
    toEscape,
  );
}
