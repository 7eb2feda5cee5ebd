// The plots of the page: each is made of one table, and drawn anew when its view changes.

const MAX_LEGEND = 12;

// The numbers of the colours in the style sheet, which the colour-blind can tell apart too.
const GOOD = 0, BAD = 1, WARN = 2, CALM = 3, GREY = 4, ODD = 5, SKY = 6, YELLOW = 7;

const COLOURS = Object.fromEntries([
  [GOOD, "unfenced,online,preferred,recovered,elected,expand,completed,swapped,in sync"],
  [BAD, "offline,open,directory,leaderless,offline_directories,failed,no leader"],
  [WARN, "fenced,closed,broker,under_min_isr,shrink,reverted,failed_brokers,not all in sync"],
  [CALM, "controlled_shutdown,controller,replace,running,under_replicated,acknowledged,received,succeeded"],
  [GREY, "unknown,cancelled,not_preferred"],
  [ODD, "unclean,follower,registered,offline_replicas,fault"],
  [SKY, "reassignment"],
  [YELLOW, "unregistered"],
].flatMap(([colour, names]) => names.split(",").map((name) => [name, colour])));

function laneText(row, names) {
  const broker = (name) => (name === "broker" || name === "controller" ? `${name} ` : "");
  if (names[0] === "topic" && names[1] === "partition") {
    return `${row.texts.topic}-${row.texts.partition}` + (names[2] ? ` on broker ${row.texts[names[2]]}` : "");
  }
  return names.filter((name) => row.values[name] !== null).map((name) => broker(name) + row.texts[name]).join(" ");
}

function makeIntervals(plot, rows) {
  const spec = plot.spec, end = readMoment(spec.logEnd);
  const kept = rows.filter((row) => row.values[spec.start] !== null);
  const named = kept.map((row) => ({ row, name: laneText(row, spec.lane) }));
  plot.lanes = named.map((item) => item.name);
  if (!spec.one_each) plot.lanes = [...new Set(plot.lanes)];
  if (!spec.one_each && !spec.in_order) plot.lanes.sort(byNature);
  const lanes = new Map(plot.lanes.map((name, at) => [name, at]));
  const shown = (row) => (spec.days ? row.values[spec.colour] : row.texts[spec.colour]);
  const colours = spec.days ? null : palette(kept.map(shown), COLOURS);
  plot.items = named.map(({ row, name }, at) => {
    const start = row.values[spec.start];
    const until = spec.days ? start + DAY : row.values[spec.end] ?? Math.max(start, end ?? start);
    return {
      start, end: Math.max(start, until), lines: row.lines,
      lane: spec.one_each ? at : lanes.get(name),
      colour: colours ? colours.get(shown(row)) : shareColour(shown(row)),
    };
  });
  plot.items.sort((a, b) => a.start - b.start);
  plot.legend = colours ? [...colours] : SHARES.map(([, colour, text]) => [text, colour]);
  plot.times = spec.days ? [] : plot.items.flatMap((item) => [item.start, item.end]);
  plot.draw = drawIntervals;
}

function makeBars(plot, rows) {
  const spec = plot.spec;
  const kept = rows.filter((row) => row.values[spec.time] !== null
    && Object.entries(spec.where).every(([name, value]) => row.values[name] === value));
  const colours = palette(kept.map((row) => row.texts[spec.series]), COLOURS);
  const buckets = new Map();
  for (const row of kept) {
    const start = row.values[spec.time], value = row.values[spec.value];
    if (!buckets.has(start)) buckets.set(start, { start, total: 0, parts: [] });
    const bucket = buckets.get(start);
    bucket.total += value;
    bucket.parts.push({ value, colour: colours.get(row.texts[spec.series]), lines: row.lines });
  }
  plot.buckets = [...buckets.values()];
  plot.items = plot.buckets;
  plot.legend = [...colours];
  plot.times = [];
  plot.draw = drawBars;
}

function makeSteps(plot, rows) {
  const spec = plot.spec, end = readMoment(spec.logEnd), begin = readMoment(document.body.dataset.first);
  const kept = rows.filter((row) => row.values[spec.time] !== null
    && Object.entries(spec.where).every(([name, values]) => values.includes(row.values[name])));
  const named = kept.map((row) => ({ row, name: laneText(row, spec.series).replaceAll("_", " ") }));
  const fixed = Object.fromEntries(named.filter(({ row }) => Object.hasOwn(COLOURS, row.values[spec.series[0]]))
    .map(({ row, name }) => [name, COLOURS[row.values[spec.series[0]]]]));
  const colours = palette(named.map(({ name }) => name).sort(byNature), fixed);
  const lines = new Map([...colours].map(([name, colour]) => [name, { name, colour, points: [] }]));
  for (const { row, name } of named) {
    lines.get(name).points.push({ start: row.values[spec.time], value: row.values[spec.value], lines: row.lines });
  }
  plot.items = [...lines.values()];
  for (const { points } of plot.items) {
    points.sort((a, b) => a.start - b.start);
    if (begin !== null && begin < points[0].start) points.unshift({ start: begin, value: 0, lines: [] });
    points.forEach((point, at) => { point.end = points[at + 1]?.start ?? Math.max(point.start, end ?? point.start); });
  }
  plot.legend = [...colours];
  plot.times = plot.items.flatMap(({ points }) => points.map((point) => point.start));
  plot.draw = drawSteps;
}

function makeRanking(plot, all, titles) {
  const spec = plot.spec, rows = all.slice(0, spec.most ?? all.length);
  plot.lanes = rows.map((row) => laneText(row, spec.label));
  plot.items = rows.map((row) => ({
    values: spec.values.map((name) => row.values[name]),
    texts: spec.values.map((name) => row.texts[name]),
    mark: spec.mark ? row.values[spec.mark] : null,
    lines: row.lines,
  }));
  const most = Math.max(1, ...plot.items.flatMap((item) => [...item.values, item.mark ?? 0]));
  plot.colours = new Map(spec.values.map((name, at) => [name, [3, 2, 0][at]]));
  plot.legend = spec.values.map((name) => [titles.get(name), plot.colours.get(name)]);
  plot.view ??= new View([0, most], 1);
  plot.draw = drawRanking;
}

function makePlot(place) {
  const spec = JSON.parse(place.dataset.plot);
  const table = place.closest("figure").querySelector("table[data-figure]");
  const { rows } = readFigure(table);
  const plot = { place, spec, rows, width: 0, left: 0, right: 0 };
  const heads = [...table.tHead.rows[0].cells].map((cell) => cell.textContent);
  const names = rows.length ? Object.keys(rows[0].values) : [];
  plot.titles = new Map(names.map((name, at) => [name, heads[at]]));
  fill(plot);
  return plot;
}

// Makes the items of a plot from the rows that match the filters; the view chooses the period.
function fill(plot) {
  const rows = plot.rows.filter(isNamed);
  switch (plot.spec.kind) {
    case "intervals": makeIntervals(plot, rows); break;
    case "bars": makeBars(plot, rows); break;
    case "steps": makeSteps(plot, rows); break;
    default: makeRanking(plot, rows, plot.titles);
  }
}

function showLegend(plot) {
  plot.legendPlace.replaceChildren();
  if (plot.legend.length > MAX_LEGEND) return;
  for (const [text, colour] of plot.legend) {
    const entry = element("span", "legend");
    entry.append(element("span", `swatch k${colour}`), text);
    plot.legendPlace.append(entry);
  }
}

function element(name, className, text) {
  const made = document.createElement(name);
  if (className) made.className = className;
  if (text !== undefined) made.textContent = text;
  return made;
}

function button(text, label, action) {
  const made = element("button", "", text);
  made.type = "button";
  made.setAttribute("aria-label", label);
  made.addEventListener("click", action);
  return made;
}

function build(plot) {
  if (!plot.items.length) {
    plot.place.append(element("p", "none", "None."));
    return;
  }
  const bar = element("div", "bar");
  plot.legendPlace = element("span", "legends");
  bar.append(plot.legendPlace);
  showLegend(plot);
  plot.rangeText = element("span", "range");
  bar.append(plot.rangeText);
  plot.resetButton = button("Reset", "Show all again", () => plot.view.reset());
  bar.append(
    button("+", "Zoom in", () => zoomMiddle(plot, 1.5)),
    button("−", "Zoom out", () => zoomMiddle(plot, 1 / 1.5)),
    plot.resetButton,
  );
  plot.chart = element("div", "chart");
  plot.chart.tabIndex = 0;
  plot.chart.setAttribute("role", "group");
  plot.chart.setAttribute("aria-label", `Plot: ${plot.spec.title}`);
  plot.chart.setAttribute("aria-describedby", "help");
  plot.place.append(bar, plot.chart);
  attachGestures(plot);
  let asked = 0;
  const later = () => {
    cancelAnimationFrame(asked);
    asked = requestAnimationFrame(() => render(plot));
  };
  plot.view.listeners.push(later);
  new ResizeObserver(() => {
    if (Math.floor(plot.chart.clientWidth) !== plot.width) later();
  }).observe(plot.chart);
  render(plot);
}

function render(plot) {
  const width = Math.floor(plot.chart.clientWidth);
  if (width < 40) return;
  plot.width = width;
  tip.hidden = true;
  if (!plot.items.length) {
    plot.chart.replaceChildren(element("p", "none", "Nothing matches the filters."));
    return;
  }
  Object.assign(plot, plot.draw(plot, width));
  // Marks lie above everything else, so that the pointer finds them.
  plot.svg.append(...plot.svg.querySelectorAll(".changed"));
  plot.chart.replaceChildren(plot.svg);
  plot.resetButton.disabled = plot.view.whole;
  plot.rangeText.textContent = plot.times ? rangeText(plot.view.range) : "";
}

// What was changed in the cluster, for the axes of time.
function readMarks() {
  const table = document.querySelector("table[data-figure=marks]");
  const rows = table ? readFigure(table).rows : [];
  return rows.filter((row) => row.values.time !== null)
    .map((row) => ({ time: row.values.time, what: row.texts.what, text: markText(row) }))
    .sort((a, b) => a.time - b.time);
}

function markText(row) {
  const more = row.values.changes - 1;
  return `${row.texts.text}${more ? ` and ${more} more` : ""}`;
}

// The texts of times are read from the tables when the pointer is over a mark: all are made anew.
function addZoneButton(plots, zoneChanged) {
  const nav = document.querySelector("nav");
  const zone = button("Local time", "Show times in local time instead of UTC", () => {
    isLocal = !isLocal;
    zone.setAttribute("aria-pressed", String(isLocal));
    showTimes();
    zoneChanged();
    plots.forEach((plot) => plot.chart && render(plot));
  });
  zone.setAttribute("aria-pressed", "false");
  nav.append(zone);
}

function start() {
  marks.push(...readMarks());
  const plots = [...document.querySelectorAll(".plot")].map(makePlot);
  const times = [readMoment(document.body.dataset.first), readMoment(document.body.dataset.last)].filter((time) => time !== null);
  for (const plot of plots) for (const time of plot.times ?? []) times.push(time);
  let first = Infinity, last = -Infinity;
  for (const time of times) {
    first = Math.min(first, time);
    last = Math.max(last, time);
  }
  const shared = new View(first <= last ? [first, Math.max(last, first + SECOND)] : [0, SECOND], 5);
  for (const plot of plots) {
    plot.view ??= shared;
    build(plot);
  }
  const zoneChanged = addFilters(
    () => plots.forEach((plot) => {
      if (!plot.chart) return;
      fill(plot);
      showLegend(plot);
      render(plot);
    }),
    (from, to) => shared.show(from ?? shared.full[0], to ?? shared.full[1]),
  );
  if (!isElapsed) addZoneButton(plots, zoneChanged);
  // Paper cannot be unfolded: all tables are opened for printing, and closed again afterwards.
  let unfolded = [];
  addEventListener("beforeprint", () => {
    unfolded = [...document.querySelectorAll("details:not([open]):not(.query)")];
    unfolded.forEach((details) => { details.open = true; });
  });
  addEventListener("afterprint", () => unfolded.forEach((details) => { details.open = false; }));
}

start();
