// The live page: applies patches of the cluster's state and draws the sections that changed.
// Everything is inserted as text, never as markup, since topic names come from users.

const state = { sections: {}, events: [] };
const at = (id) => document.getElementById(id);
const SHAPES = { bad: "■", warn: "▲", fault: "✕", good: "●", unknown: "○" };
const EVENTS_KEPT = 300;

// The token is in the fragment of the URL, which browsers do not send; it lasts as long as this tab.
const given = new URLSearchParams(location.hash.slice(1)).get("token");
if (given) {
  sessionStorage.setItem("token", given);
  history.replaceState(null, "", location.pathname);
}
// The URL of another start, pasted into a tab that has the page: its token counts from now on.
addEventListener("hashchange", () => { if (location.hash.includes("token=")) location.reload(); });
const token = sessionStorage.getItem("token") ?? "";

function make(tag, fields = {}, ...children) {
  const made = document.createElement(tag);
  for (const [name, value] of Object.entries(fields)) {
    if (name === "onclick") made.addEventListener("click", value);
    else if (value !== undefined && value !== false) made.setAttribute(name, value === true ? "" : value);
  }
  made.append(...children.filter((child) => child !== null && child !== undefined));
  return made;
}

// What has the focus keeps it when its section is drawn anew.
function fill(place, ...children) {
  const active = place.contains(document.activeElement) ? document.activeElement.id : "";
  const { scrollTop, scrollLeft } = place;
  place.replaceChildren(...children);
  place.scrollTop = scrollTop;
  place.scrollLeft = scrollLeft;
  if (active) at(active)?.focus({ preventScroll: true });
}

function bytes(count) {
  if (count === null || count < 0) return "–";
  const units = ["B", "KiB", "MiB", "GiB", "TiB"];
  let unit = 0;
  while (count >= 1024 && unit < units.length - 1) { count /= 1024; unit += 1; }
  return `${unit && count < 10 ? count.toFixed(1) : Math.round(count)} ${units[unit]}`;
}

const counted = (count, one, many = `${one}s`) => `${count} ${count === 1 ? one : many}`;
const mark = (level, text) => make("span", { class: `state ${level}` }, `${SHAPES[level]} ${text}`);

const button = (row, name) => make("button", { type: "button", class: "plain", id: `p-${name}`, onclick: () => showPartition(row) }, name);
// The columns of the table of partitions, and the content of their cells.
const OF_PARTITIONS = {
  partition: (row) => button(row, `${row.topic}-${row.partition}`),
  state: ({ state: now }) => mark({ "in sync": "good", "no leader": "bad" }[now] ?? "warn", now),
  leader: ({ leader }) => leader < 0 ? "none" : String(leader),
  replicas: ({ replicas }) => replicas.join(", "),
  "in sync": ({ isr }) => isr.join(", "),
  eligible: ({ elr }) => elr.join(", "),
  "last known eligible": ({ last_known_elr }) => last_known_elr.join(", "),
};
fill(at("of-partitions"), ...Object.keys(OF_PARTITIONS).map((title) => make("th", { scope: "col" }, title)));

const draw = {
  cluster({ name, bootstrap, leading_controller, not_known, may_break, kinds }) {
    at("name").textContent = name;
    at("address").textContent = [`bootstrap.servers=${bootstrap}`, leading_controller].filter(Boolean).join(" | ");
    document.title = `jbodlab ${name}`;
    at("heal").hidden = !mayBreak();
    at("break-cluster").hidden = !mayBreak() || !kinds.some((kind) => kind.scope === "cluster");
    at("unknown").hidden = not_known.length === 0;
    fill(at("not-known"), ...not_known.map((text) => make("li", {}, text)));
    if (may_break && !mayBreak()) say("To inject faults, open the URL that the command printed: it has the token.");
  },
  problems(lines) {
    const items = lines.map(({ level, text }) => make("li", {}, mark(level, text)));
    fill(at("problems"), ...(items.length ? items : [make("li", {}, mark("good", "none"))]));
  },
  brokers(brokers) {
    fill(at("brokers"), ...brokers.map(drawBroker));
  },
  moves(moves) {
    at("moving").hidden = moves.length === 0;
    fill(at("moves"), ...moves.map((move) => make("li", {},
      `${move.partition} on broker-${move.broker}: directory ${move.from ?? "?"} → ${move.to ?? "?"}, ${bytes(move.bytes)} of ${bytes(move.of)} `,
      make("progress", { max: Math.max(move.of, 1), value: Math.min(move.bytes, Math.max(move.of, 1)), "aria-label": `move of ${move.partition}` }))));
  },
  transactions({ open, stuck }) {
    at("committing").hidden = open.length + stuck.length === 0;
    fill(at("transactions"),
      ...open.map(({ id, producer, state }) => make("li", {}, mark("unknown", state), ` ${id}, producer ${producer}`)),
      ...stuck.map(({ partition, offset, behind }) => make("li", {}, mark("warn", "stands still"),
        ` ${partition}: readers of committed records stop at offset ${offset}, ${behind} before the high watermark`)));
  },
  rates({ names, period_s, points }) {
    fill(at("rates"), make("div", { class: "curves" }, ...names.map((name, index) => drawCurve(name, points.map((point) => point[index]), period_s))));
  },
  partitions({ count, shown }) {
    const rest = count - shown.length;
    at("counted").textContent = counted(count, "partition") + (rest > 0 ? `; ${rest} in-sync partitions are not listed` : "");
    fill(at("partitions"), ...shown.map((row) => make("tr", {}, ...Object.values(OF_PARTITIONS).map((cell) => make("td", {}, cell(row))))));
  },
  faults() {},
};

function mayBreak() {
  const { may_break, needs_token } = state.sections.cluster;
  return may_break && (!needs_token || token !== "");
}

function drawBroker(broker) {
  const may_break = mayBreak();
  const name = `broker-${broker.id}`;
  const level = broker.state === "serves" ? "good" : "bad";
  return make("article", { class: "broker", id: name, "aria-label": name },
    make("div", { class: "head" }, make("h3", {}, name), mark(level, broker.state),
      make("span", {}, counted(broker.leaders, "leader")),
      make("span", { class: "soft" }, broker.address),
      ...broker.faults.map((kind) => mark("fault", kind)),
      may_break ? make("button", { type: "button", id: `break-${name}`, class: "danger", onclick: () => askBreak(name, broker.leaders, "broker") }, `Break ${name}`) : null),
    make("ul", { class: "dirs" }, ...broker.log_dirs.map((one) => drawDirectory(broker, one))));
}

function drawDirectory(broker, one) {
  const may_break = mayBreak();
  const name = `broker-${broker.id}/${one.number}`;
  const level = { online: one.conditions.length ? "warn" : "good", OFFLINE: "bad" }[one.state] ?? "unknown";
  const isKnown = one.state === "online";
  const used = one.total - one.usable;
  return make("li", { class: `dir ${level}`, id: `dir-${broker.id}-${one.number}` },
    make("p", {}, make("strong", {}, `${one.number} `), mark(level, [one.state, ...one.conditions].join(", ")), " ",
      ...one.faults.map((kind) => mark("fault", kind))),
    one.cause ? make("p", { class: "bad" }, one.cause) : null,
    isKnown ? make("p", {}, `${counted(one.leaders, "leader")}, ${counted(one.replicas, "replica")}, ${bytes(one.bytes)}${one.arriving ? `, ${one.arriving} arriving` : ""}`) : null,
    isKnown && one.total > 0 && one.usable >= 0
      ? make("p", {}, make("meter", { min: 0, max: one.total, value: used, high: one.total * 0.9, "aria-label": `${name}: space` }), `${bytes(used)} of ${bytes(one.total)}`) : null,
    make("p", { class: "path" }, one.path),
    may_break ? make("button", { type: "button", id: `break-${broker.id}-${one.number}`, class: "danger", onclick: () => askBreak(name, one.leaders, "directory") }, `Break ${name}`) : null);
}

function drawCurve(name, values, period_s) {
  const most = Math.max(1, ...values);
  const width = Math.max(values.length - 1, 1);
  const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
  svg.setAttribute("viewBox", `0 0 ${width} 100`);
  svg.setAttribute("preserveAspectRatio", "none");
  svg.setAttribute("aria-hidden", "true");
  const line = document.createElementNS("http://www.w3.org/2000/svg", "polyline");
  line.setAttribute("points", values.map((value, index) => `${index},${98 - (96 * value) / most}`).join(" "));
  svg.append(line);
  return make("div", { class: "curve" },
    make("p", {}, `${name} ${bytes(values.at(-1) ?? 0)}/s`), svg,
    make("p", { class: "soft" }, `highest in ${Math.round(values.length * period_s)} s: ${bytes(values.length ? Math.max(...values) : 0)}/s`));
}

function drawEvents() {
  fill(at("events"), ...state.events.slice().sort((one, other) => other.at_ms - one.at_ms).map((event) => {
    const when = new Date(event.at_ms);
    const text = when.toLocaleTimeString([], { hour12: false }) + `.${String(when.getMilliseconds()).padStart(3, "0")}`;
    return make("li", {}, make("time", { datetime: when.toISOString() }, text), make("span", { class: event.source === "fault" ? "fault" : "" }, `${event.source}: `), event.text);
  }));
}

function take(patch) {
  if (patch.whole) { state.sections = {}; state.events = []; }
  Object.assign(state.sections, patch.sections);
  // The brokers are drawn with what the cluster allows.
  for (const name of ["cluster", ...Object.keys(patch.sections).filter((one) => one !== "cluster")]) {
    if (name in patch.sections) draw[name]?.(patch.sections[name]);
  }
  if (patch.whole || patch.events.length) {
    state.events.push(...patch.events);
    state.events = state.events.slice(-EVENTS_KEPT);
    drawEvents();
  }
}

function say(text) {
  at("said").textContent = text;
  at("said").hidden = !text;
}

async function ask(method, path, body) {
  const answer = await fetch(`/v1/${path}`, {
    method,
    headers: { "Content-Type": "application/json", ...(token && { Authorization: `Bearer ${token}` }) },
    body: body && JSON.stringify(body),
  });
  const found = await answer.json();
  if (!answer.ok) throw new Error(found.detail);
  return found;
}

async function showPartition(row) {
  const found = await ask("GET", `topics/${row.topic}/${row.partition}`).catch((error) => say(error.message));
  if (!found) return;
  at("one-title").textContent = `${found.topic}-${found.partition}: ${found.state}`;
  fill(at("one-replicas"), ...found.replicas.map((replica) => {
    const words = [replica.leads && "leads", replica.offline && "offline", replica.in_sync ? "in sync" : "not in sync", replica.eligible && "eligible"].filter(Boolean);
    return make("tr", {}, make("td", {}, String(replica.broker)), make("td", {}, replica.directory.split("/")[1] ?? "–"),
      make("td", {}, bytes(replica.bytes)), make("td", {}, mark(replica.offline ? "bad" : replica.in_sync ? "good" : "warn", words.join(", "))));
  }));
  at("one").showModal();
}

let breaking = null;

function askBreak(where, leaders, scope) {
  breaking = { where };
  at("break-title").textContent = `Break ${where}`;
  const has = leaders === null ? "" : `, which has ${counted(leaders, "leader")}`;
  at("break-what").textContent = `Injects a real fault on ${where}${has}. It heals by itself after its length, or at once with “Heal all”.`;
  const kinds = state.sections.cluster.kinds.filter((kind) => kind.scope.includes(scope));
  fill(at("kind"), ...kinds.map((kind) => make("option", { value: kind.name }, kind.name)));
  at("refused").textContent = "";
  at("last").checked = false;
  explain();
  at("break").showModal();
}

function explain() {
  const kind = state.sections.cluster.kinds.find((one) => one.name === at("kind").value);
  at("meaning").textContent = kind?.meaning ?? "";
  at("parameters-label").hidden = !kind?.parameters.length;
  at("parameters").value = "";
  at("parameters").placeholder = (kind?.parameters ?? []).map((word) => `${word}=`).join(" ");
}

async function doBreak() {
  const words = at("parameters").value.trim().split(/\s+/).filter(Boolean).map((word) => word.split(/=(.*)/s).slice(0, 2));
  at("do-break").disabled = true;
  at("refused").textContent = "";
  try {
    const made = await ask("POST", "faults", {
      kind: at("kind").value, where: breaking.where, for: at("length").value.trim(),
      ...Object.fromEntries(words), even_last_in_sync: at("last").checked,
    });
    say(`fault ${made.id}: ${made.kind} on ${made.where} by ${made.mechanism}, proved`);
    at("break").close();
  } catch (error) {
    at("refused").textContent = error.message;
  } finally {
    at("do-break").disabled = false;
  }
}

async function heal() {
  at("heal").disabled = true;
  say("Healing …");
  try {
    const { healed, revived, started } = await ask("POST", "heal");
    const said = [...healed.map((id) => `fault ${id} healed`), ...started.map((one) => `${one} started`), ...revived.map((one) => `${one} is online again`)];
    say(said.join("\n") || "no fault is in effect");
  } catch (error) { say(error.message); } finally { at("heal").disabled = false; }
}

at("kind").addEventListener("change", explain);
at("do-break").addEventListener("click", doBreak);
at("heal").addEventListener("click", heal);
at("break-cluster").addEventListener("click", () => askBreak("cluster", null, "cluster"));
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}
// Enter in a field does what the button does, as in a form; a form could be sent by other pages.
at("break-form").addEventListener("keydown", (event) => {
  if (event.key === "Enter" && event.target.tagName === "INPUT") doBreak();
});

const asked = token ? `?${new URLSearchParams({ token })}` : "";
at("what-if").href += asked;
const stream = new EventSource(`/v1/events${asked}`);
stream.addEventListener("message", (message) => {
  at("connection").textContent = "live";
  at("connection").className = "";
  take(JSON.parse(message.data));
});
stream.addEventListener("error", () => {
  // Browsers come back by themselves, except after a refusal.
  at("connection").textContent = stream.readyState === EventSource.CLOSED
    ? "refused: open the URL that the command printed, it has the token"
    : "connection lost: this is the last known state";
  at("connection").className = "lost";
});
