import {
  get,
  getAll,
  getSecure,
  meta,
  onAnyChange,
  onChange,
  onStatus,
  status,
} from "/rep/client.js";

const GREETING = "Configuration, live";
const STATES = { open: "Live", connecting: "Connecting…", closed: "Closed" };

const rows = new Map();

function byId(id) {
  return document.getElementById(id);
}

function showGreeting() {
  byId("greeting").textContent = get("GREETING", GREETING);
}

function showStatus({ state, lastEventId }) {
  byId("state").textContent = STATES[state];
  byId("state").dataset.state = state;
  byId("last-id").textContent = lastEventId ?? "none";
}

function showProblem(text) {
  byId("problem").textContent = text;
  byId("problem").hidden = false;
}

function showValue(row, value) {
  const cell = row.querySelector("td");
  cell.textContent = value === "" ? "empty" : value;
  cell.classList.toggle("empty", value === "");
}

function createRow(name) {
  const row = byId("row").content.firstElementChild.cloneNode(true);
  row.querySelector("th").textContent = name;
  row.addEventListener(
    "animationend",
    () => row.classList.contains("gone") ? removeRow(name) : stopAnimation(row),
  );
  const next = [...rows.keys()].filter((other) => other > name).sort()[0];
  byId("variables").insertBefore(row, rows.get(next) ?? null);
  rows.set(name, row);
  return row;
}

function removeRow(name) {
  rows.get(name)?.remove();
  rows.delete(name);
}

function stopAnimation(row) {
  row.classList.remove("changed", "gone");
}

/** Starts or restarts the animation of a row. */
function animate(row, className) {
  stopAnimation(row);
  void row.offsetWidth; // forces a layout without the class, so that the animation restarts
  row.classList.add(className);
}

function showChange(name, value) {
  const row = rows.get(name) ?? createRow(name);
  if (value !== undefined) showValue(row, value);
  animate(row, value === undefined ? "gone" : "changed");
}

function announceChange(name, value) {
  const news = value === undefined
    ? `${name} was deleted`
    : `${name} is now ${value || "empty"}`;
  byId("news").textContent = `${news} (${new Date().toLocaleTimeString()})`;
}

/** No page contains a SERVER variable or its name, so the client does not know it. */
function showServerVariable() {
  byId("server").textContent = get("DATABASE_URL") ?? "absent from this page";
}

async function decrypt(event) {
  event.preventDefault();
  const name = byId("name").value.trim();
  const secret = byId("secret");
  secret.classList.remove("error");
  secret.textContent = "Decrypting…";
  try {
    secret.textContent = await getSecure(name);
  } catch (error) {
    secret.classList.add("error");
    secret.textContent = error.message;
  }
}

function subscribe() {
  onStatus(showStatus);
  onChange("GREETING", showGreeting);
  onAnyChange((name, value) => {
    showChange(name, value);
    announceChange(name, value);
  });
}

function start() {
  showGreeting();
  showStatus(status());
  showServerVariable();
  for (const [name, value] of Object.entries(getAll())) {
    showValue(createRow(name), value);
  }
  byId("sensitive").addEventListener("submit", decrypt);
  if (!meta()) {
    showProblem(
      "This page has no configuration: it must be served by the gateway.",
    );
  } else if (!meta().hotReloadAvailable) {
    showProblem("Hot reload is off: start the gateway with --hot-reload.");
  } else subscribe();
}

start();
