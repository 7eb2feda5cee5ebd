// Filters choose among the rows of the page: tables hide the others, plots are drawn without them.

const FILTERED = [
  // The filter, the columns that it looks at, and whether a part of a name is enough.
  { name: "cluster", title: "Cluster", columns: ["cluster"], parts: true },
  { name: "topic", title: "Topic", columns: ["topic"], parts: true },
  { name: "broker", title: "Broker", columns: ["broker", "node", "from_broker", "to_broker"], parts: false },
];

const wanted = { from: null, to: null };

function wantedNames(text) {
  return text.toLowerCase().split(/[\s,]+/).filter((name) => name);
}

// Null where a row has no such column: the row always stays.
function isOneOf(filter, names, values) {
  const columns = filter.columns.filter((column) => column in values);
  if (!columns.length) return null;
  const own = columns.map((column) => values[column]).filter((value) => value !== null).map((value) => value.toLowerCase());
  return own.some((value) => names.some((name) => (filter.parts ? value.includes(name) : value === name)));
}

function isNamed(row) {
  return FILTERED.every((filter) => !wanted[filter.name]?.length || isOneOf(filter, wanted[filter.name], row.values) !== false);
}

// A row without an end lasts for ever; a row without a begin always stays.
function isInTime(row, span, lasts) {
  if (!span.length || (wanted.from === null && wanted.to === null)) return true;
  const start = row.values[span[0]], end = span.length > 1 ? row.values[span[1]] ?? Infinity : start + lasts;
  return start === null || ((wanted.to === null || start <= wanted.to) && (wanted.from === null || end >= wanted.from));
}

function isAsked() {
  return wanted.from !== null || wanted.to !== null || FILTERED.some(({ name }) => wanted[name]?.length);
}

// Hides rows, and writes above each table how many are left, or that it has no such column.
function filterTable(table) {
  const span = (table.dataset.span ?? "").split(" ").filter((name) => name);
  const rows = readFigure(table).rows, lasts = Number(table.dataset.lasts ?? 0);
  let left = 0;
  rows.forEach((row, at) => {
    const kept = isNamed(row) && isInTime(row, span, lasts);
    table.tBodies[0].rows[at].hidden = !kept;
    left += kept;
  });
  const summary = table.closest("details")?.querySelector("summary");
  if (!summary) return;
  summary.dataset.all ??= summary.textContent;
  const can = rows.length && FILTERED.some((filter) => wanted[filter.name]?.length && filter.columns.some((column) => column in rows[0].values));
  const inTime = span.length && (wanted.from !== null || wanted.to !== null);
  summary.textContent = summary.dataset.all
    + (!isAsked() || !rows.length ? "" : can || inTime ? `, ${left} of them shown` : ", not filtered");
}

// The clock that is shown: UTC, or the reader's.
function readField(text) {
  if (!text) return null;
  return isElapsed ? Number(text) * SECOND : readTime(isLocal ? text : `${text}Z`);
}

function fieldText(time) {
  if (time === null) return "";
  return isElapsed ? String(time / SECOND) : new Date(shown(time)).toISOString().slice(0, 19);
}

function field(bar, type, title) {
  const label = element("label", "", `${title} `), input = element("input");
  input.type = type;
  if (type === "datetime-local") input.step = "1";
  else if (type === "number") input.step = "any";
  else input.spellcheck = false;
  label.append(input);
  bar.append(label);
  return input;
}

// Fields for what the tables of this page name; `changed` draws the plots anew, `show` moves them.
function addFilters(changed, show) {
  const tables = [...document.querySelectorAll("table[data-figure]")];
  const columns = new Set(tables.flatMap((table) => [...table.querySelectorAll("tbody tr:first-child td")].map((cell) => cell.dataset.column)));
  const bar = element("div", "filters"), said = element("p", "note");
  bar.setAttribute("role", "search");
  bar.setAttribute("aria-label", "Filters");
  said.setAttribute("role", "status");
  const fields = new Map();
  const apply = () => {
    for (const { name } of FILTERED) wanted[name] = wantedNames(fields.get(name)?.value ?? "");
    tables.forEach(filterTable);
    changed();
    clear.disabled = !isAsked();
    said.textContent = isAsked() ? "Tables and plots show only what matches the filters. Boxes, and tables without such a column, still show everything." : "";
  };
  for (const { name, title, columns: own } of FILTERED) {
    if (!own.some((column) => columns.has(column))) continue;
    fields.set(name, field(bar, "search", title));
    fields.get(name).addEventListener("input", apply);
  }
  for (const [name, title] of [["from", "From"], ["to", "To"]]) {
    const input = isElapsed ? field(bar, "number", `${title} second`) : field(bar, "datetime-local", title);
    fields.set(name, input);
    input.addEventListener("change", () => {
      wanted[name] = readField(input.value);
      apply();
      show(wanted.from, wanted.to);
    });
  }
  const clear = button("Clear", "Clear all filters", () => {
    fields.forEach((input) => { input.value = ""; });
    wanted.from = wanted.to = null;
    apply();
    show(null, null);
  });
  clear.disabled = true;
  bar.append(clear);
  document.querySelector("header").append(bar, said);
  return () => {
    fields.get("from").value = fieldText(wanted.from);
    fields.get("to").value = fieldText(wanted.to);
  };
}
