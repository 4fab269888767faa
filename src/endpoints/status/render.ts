import { type Content, type Markup, markup } from "./markup.ts";
import type { Status } from "./status.ts";

/**
 * Returns the content of the status page: first what is wrong, then what explains it. The page itself calls it as well,
 * with the JSON that it polls.
 */
export function renderStatus(status: Status): string {
  const { time, rollout, events, options } = status;
  const replicas = rollout.map((
    { heartbeat, ...others },
  ) => [...Object.values(others), ago(heartbeat, time)]);
  return String(markup`${renderHealth(status)}
${renderFacts(status)}
${renderHour(status)}
<h2>Rollout</h2><p>At most eight representatives for each configuration, as of the last answer of the store.</p>
${
    table("Rollout", [
      "Configuration",
      "Configuration is",
      "Rank",
      "Place",
      "Process is",
      "Last heartbeat",
    ], replicas)
  }
<h2>Events</h2>${
    table("Events", ["Time", "ID", "Name", "Action"], events.map(Object.values))
  }
${renderVariables(status)}
<details><summary>Options</summary>${
    table("Options", ["Option", "Value"], Object.entries(options))
  }</details>`);
}

const STATES = {
  starting: "Starting",
  healthy: "Healthy",
  degraded: "Degraded, but serving",
  stopping: "Stopping",
};

const PROBLEMS = {
  config_rejected:
    "The last reload was rejected. Correct it and reload. Do not restart: a start with it fails.",
  store_unavailable:
    "The store does not answer: changes wait. Bring it back, and restart no gateway meanwhile.",
  certificate_ended:
    "The TLS certificate has ended, and clients reject it. Renew it, replace its files, and reload.",
  uncaught_error:
    "An error was not caught. Report it with its stack, which is in the log, and restart this process.",
  other_app:
    "Another app has the same store. Nothing is published, and pages keep their values. Give each app a name of its own, or another database.",
  other_master_key:
    "Another replica has another master key: neither can issue keys for the other's pages. Set the same one for all, or for none.",
  clock_skew:
    "The clock of this process or of another is off: keys of pages are rejected. Synchronize the clocks of the machines (NTP).",
};

const PAGES = {
  active: "Pages have the PUBLIC values of this process's configuration.",
  superseded:
    "Pages have the PUBLIC values of a newer configuration than this process's. In a rollout, this is normal.",
  unannounced:
    "Pages have the PUBLIC values of the previous configuration, until the store answers.",
};

const NO_KEY =
  "Pages have no SENSITIVE values: the store has their key. Do not restart gateways that have read it.";

function renderHealth(
  { status, problems = [], issues, store, configuration, ...others }: Status,
): Markup {
  const note = others.has_master_key || others.variables.sensitive === 0
    ? ""
    : NO_KEY;
  const paragraphs = problems.map((type) => markup`<p>${PROBLEMS[type]}</p>`);
  const reasons = [...issues, store.failure, ...others.conflicts].filter((
    reason,
  ) => reason !== undefined);
  return markup`<section class="health ${status}"><p class="state" role="status">${
    STATES[status]
  }</p>
${paragraphs}${list(reasons)}<p>${
    PAGES[configuration.state]
  }</p><p>${note}</p></section>`;
}

function renderFacts(
  { configuration, store, sources, time, certificate_end, ...status }: Status,
): Markup {
  const { hash, state, active, loaded } = configuration;
  const facts = {
    ...(status.place && { "Place": status.place }),
    "Configuration": `${hash}, ${state}${
      active === hash ? "" : `; ${active} is active`
    }`,
    "Loaded": ago(loaded, time),
    ...(status.rejected_since &&
      { "Reloads rejected since": ago(status.rejected_since, time) }),
    "From": Object.entries(sources).map(([source, count]) =>
      `${source} (${count})`
    ).join(", "),
    "Store": `${store.engine}, ${
      store.available ? "available" : "unavailable"
    } since ${ago(store.since, time)}`,
    ...(certificate_end &&
      { "Certificate": `until ${certificate_end.slice(0, 10)}` }),
    "Version": status.version,
    "Running for": duration(status.uptime_seconds),
    "As of": markup`<time>${time}</time>`,
  };
  const items = Object.entries(facts).map(([name, fact]) =>
    markup`<div><dt>${name}</dt><dd>${fact}</dd></div>`
  );
  return markup`<dl>${items}</dl>`;
}

function renderHour(
  { hour: { streams, keys, rejected_keys } }: Status,
): Markup {
  const rejected = keys.map((_, minute) =>
    sumOf(Object.values(rejected_keys).map((counts) => counts[minute] ?? 0))
  );
  const sums = Object.entries(rejected_keys).map(([reason, counts]) =>
    [reason, sumOf(counts)] as const
  );
  const reasons = sums.filter(([, sum]) => sum > 0).map(([reason, sum]) =>
    `${sum} ${reason}`
  );
  return markup`<h2>The last hour, by minutes</h2><div class="plots">
${plot("Open streams at the minute marks", streams, `now ${streams.at(-1)}`)}
${plot("Session keys issued", keys, `${sumOf(keys)} in all`)}
${plot("Session keys rejected", rejected, reasons.join(", ") || "none")}</div>`;
}

/** One bar for each minute, the current one at the right. */
function plot(
  title: string,
  values: readonly number[],
  summary: string,
): Markup {
  const highest = Math.max(...values);
  const bars = values.map((value, index) =>
    `M${242 - 4 * (values.length - index)} 40v${-40 * value / (highest || 1)}`
  );
  const label = `${summary}; at most ${highest}`;
  return markup`<figure><figcaption>${title} <small>${label}</small></figcaption><svg viewBox="0 0 240 40"
preserveAspectRatio="none" role="img" aria-label="${title}: ${label}"><path d="${
    bars.join("")
  }"/></svg></figure>`;
}

function renderVariables(
  { variables, warnings, sensitive, public: shown, configuration }: Status,
): Markup {
  const { hash, active } = configuration;
  const count = (shown: number, all: number) =>
    shown < all ? `the first ${shown} of ${all}` : all;
  const note = hash === active
    ? ""
    : `The values of this process's own configuration. Pages have those of ${active}.`;
  return markup`<h2>Variables</h2>${
    list(warnings.map(({ name, detail }) => `Warning: ${name}: ${detail}`))
  }
<h3>PUBLIC: ${count(shown.length, variables.public)}</h3><p>${note}</p>
${
    table(
      "PUBLIC variables",
      ["Name", "Value", "Source", "Type"],
      shown.map(Object.values),
    )
  }
<h3>SENSITIVE: ${count(sensitive.length, variables.sensitive)}</h3>${
    list(sensitive)
  }
<h3>SERVER: ${variables.server}</h3>`;
}

function list(items: readonly Content[]): Markup {
  return markup`<ul>${items.map((item) => markup`<li>${item}</li>`)}</ul>`;
}

/** It scrolls, also by keyboard, so that a long one does not hide what is below it. */
function table(
  label: string,
  heads: readonly string[],
  rows: readonly (readonly Content[])[],
): Markup {
  if (rows.length === 0) return markup`<p>None</p>`;
  return markup`<div class="table" role="region" aria-label="${label}" tabindex="0"><table>
<tr>${heads.map((head) => markup`<th scope="col">${head}</th>`)}</tr>
${
    rows.map((cells) =>
      markup`<tr>${cells.map((cell) => markup`<td>${cell}</td>`)}</tr>\n`
    )
  }</table></div>`;
}

function sumOf(numbers: readonly number[]): number {
  return numbers.reduce((sum, number) => sum + number, 0);
}

function ago(time: string, now: string): string {
  return `${time.slice(0, 19).replace("T", " ")}, ${
    duration((Date.parse(now) - Date.parse(time)) / 1_000)
  } ago`;
}

/** Formats the largest unit of which there are two. */
function duration(seconds: number): string {
  const units = [["days", 86_400], ["h", 3_600], ["min", 60]] as const;
  const [unit, size] = units.find(([, size]) => seconds >= 2 * size) ??
    ["s", 1];
  return `${Math.max(0, Math.floor(seconds / size))} ${unit}`;
}
