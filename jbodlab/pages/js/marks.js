// Drawing: each plot becomes one SVG, as wide as its place.

const SVG = "http://www.w3.org/2000/svg";
const NARROW = 600, BAR_HEIGHT = 14, AXIS_HEIGHT = 36, BARS_HEIGHT = 150, CHAR_WIDTH = 7.4, ROW = 13;
const SHARES = [[1, 0, "100 %"], [0.9999, 7, "99.99 % and more"], [0.99, 2, "99 % and more"], [-Infinity, 1, "less"]];

const MARK_PX = 7, MARKED_LINES = 8;

const tips = new WeakMap();
const marks = [];

function add(parent, name, attributes, text) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) element.setAttribute(key, value);
  if (text !== undefined) element.textContent = text;
  parent.append(element);
  return element;
}

// The colour of each value: the one that it always has, or the next that is free.
function palette(values, fixed) {
  const seen = [...new Set(values)];
  const colours = new Map();
  let next = 0;
  for (const value of seen) colours.set(value, Object.hasOwn(fixed, value) ? fixed[value] : [3, 5, 6, 2, 0, 7, 4, 1][next++ % 8]);
  return colours;
}

function shareColour(share) {
  return share === null ? 4 : SHARES.find(([least]) => share >= least)[1];
}

function scale(view, left, right) {
  return (value) => left + ((value - view.range[0]) / view.span) * (right - left);
}

function drawTimeAxis(svg, view, left, right, height) {
  const x = scale(view, left, right);
  // Milliseconds make a text half as long again.
  const usual = timeStep(view.span, (right - left) / 88);
  const step = usual < SECOND ? timeStep(view.span, (right - left) / 132) : usual;
  const bottom = height - AXIS_HEIGHT;
  add(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
  let day = null;
  for (const tick of timeTicks(view.range, step)) {
    add(svg, "line", { class: "grid", x1: x(tick), x2: x(tick), y1: 0, y2: bottom });
    const anchor = x(tick) < left + 34 ? "start" : x(tick) > right - 34 ? "end" : "middle";
    add(svg, "text", { class: "soft", x: x(tick), y: bottom + 15, "text-anchor": anchor }, timeText(tick, step));
    if (step < DAY && !isElapsed && dayText(tick) !== day) {
      day = dayText(tick);
      add(svg, "text", { class: "soft", x: x(tick), y: bottom + 30, "text-anchor": anchor }, day);
    }
  }
  drawMarks(svg, view, x, bottom);
}

// Marks that lie too close together are drawn as one.
function drawMarks(svg, view, x, bottom) {
  let group = null;
  const draw = () => {
    if (!group) return;
    const mark = add(svg, "path", { class: "changed", d: `M${group.x} ${bottom - 7}l4 7h-8z` });
    const more = group.lines.length - MARKED_LINES;
    tips.set(mark, [...group.lines.slice(0, MARKED_LINES), ...(more > 0 ? [["", `and ${more} more`]] : [])]);
  };
  for (const { time, what, text } of marks) {
    if (time < view.range[0] || time > view.range[1]) continue;
    const at = x(time);
    if (!group || at - group.x > MARK_PX) {
      draw();
      group = { x: at, lines: [] };
    }
    group.lines.push([`${momentText(time)} ${what}`, text]);
  }
  draw();
}

function drawNumberAxis(svg, view, left, right, height) {
  const x = scale(view, left, right);
  const bottom = height - AXIS_HEIGHT + 14;
  for (const tick of ticksOf(view.range, numberStep(view.span, (right - left) / 80))) {
    add(svg, "line", { class: "grid", x1: x(tick), x2: x(tick), y1: 0, y2: bottom });
    const anchor = x(tick) < left + 12 && left < 12 ? "start" : "middle";
    add(svg, "text", { class: "soft", x: x(tick), y: bottom + 15, "text-anchor": anchor }, tick.toLocaleString("en"));
  }
  add(svg, "line", { class: "axis", x1: left, x2: right, y1: bottom, y2: bottom });
}

// Lanes have their names beside them, or above them where there is little room.
function laneLayout(names, width, thickness) {
  const narrow = width < NARROW;
  const longest = Math.max(...names.map((name) => name.length));
  const left = narrow ? 2 : Math.min(270, 14 + longest * CHAR_WIDTH);
  return { narrow, left, lane: thickness + (narrow ? 22 : 8), chars: Math.floor((narrow ? width : left - 8) / CHAR_WIDTH) };
}

function drawLaneName(svg, layout, name, top, thickness) {
  const y = layout.narrow ? top + 13 : top + 4 + thickness / 2 + 4;
  const label = add(svg, "text", { x: layout.narrow ? 2 : layout.left - 8, y, "text-anchor": layout.narrow ? "start" : "end" }, shorten(name, layout.chars));
  tips.set(label, [["", name]]);
}

function drawIntervals(plot, width) {
  const layout = laneLayout(plot.lanes, width, BAR_HEIGHT);
  const right = width - 8, height = plot.lanes.length * layout.lane + 6 + AXIS_HEIGHT;
  const svg = newSvg(plot, width, height);
  drawTimeAxis(svg, plot.view, layout.left, right, height);
  const x = scale(plot.view, layout.left, right);
  const [from, to] = plot.view.range;
  plot.lanes.forEach((name, at) => drawLaneName(svg, layout, name, at * layout.lane, BAR_HEIGHT));
  const reached = new Map();
  for (const item of plot.items) {
    if (item.end < from || item.start > to) continue;
    const left = Math.max(layout.left, x(item.start));
    const end = Math.max(left + 2, Math.min(right, x(item.end)));
    const key = item.lane * 8 + item.colour;
    if (end <= (reached.get(key) ?? -1) + 0.5) continue; // another one of its kind is drawn there
    reached.set(key, end);
    const y = item.lane * layout.lane + (layout.narrow ? 19 : 4);
    const mark = add(svg, "rect", { class: `mark k${item.colour}`, x: left, y, width: end - left, height: BAR_HEIGHT, rx: 2 });
    tips.set(mark, item.lines);
  }
  return { svg, left: layout.left, right };
}

// An axis of time below, and one of numbers from 0 beside it.
function drawFrame(plot, width, most) {
  const step = numberStep(most, 4), top = Math.ceil(most / step) * step;
  const left = 14 + top.toLocaleString("en").length * CHAR_WIDTH, right = width - 8;
  const height = BARS_HEIGHT + AXIS_HEIGHT, svg = newSvg(plot, width, height);
  const x = scale(plot.view, left, right);
  const y = (value) => BARS_HEIGHT - (value / top) * (BARS_HEIGHT - 10);
  drawTimeAxis(svg, plot.view, left, right, height);
  for (const tick of ticksOf([0, top], step)) {
    add(svg, "line", { class: "grid", x1: left, x2: right, y1: y(tick), y2: y(tick) });
    add(svg, "text", { class: "soft", x: left - 6, y: y(tick) + 4, "text-anchor": "end" }, tick.toLocaleString("en"));
  }
  return { svg, left, right, x, y };
}

function drawBars(plot, width) {
  const [from, to] = plot.view.range;
  const seen = plot.buckets.filter((bucket) => bucket.start + plot.spec.bucketMs >= from && bucket.start <= to);
  const most = Math.max(1, ...seen.map((bucket) => bucket.total));
  const { svg, left, right, x, y } = drawFrame(plot, width, most);
  for (const bucket of seen) {
    const start = Math.max(left, x(bucket.start)), end = Math.min(right, x(bucket.start + plot.spec.bucketMs));
    if (end <= start) continue;
    let below = 0;
    for (const part of bucket.parts) {
      const bottom = y(below), above = y(below + part.value);
      below += part.value;
      const mark = add(svg, "rect", { class: `mark k${part.colour}`, x: start, y: above, width: Math.max(1.5, end - start - 1), height: Math.max(0.5, bottom - above) });
      tips.set(mark, [...part.lines, ["All in this bar", bucket.total.toLocaleString("en")]]);
    }
  }
  return { svg, left, right };
}

function drawSteps(plot, width) {
  const [from, to] = plot.view.range;
  const seen = plot.items.map((line) => ({ ...line, points: line.points.filter((point) => point.end >= from && point.start <= to) }));
  const most = Math.max(1, ...seen.flatMap(({ points }) => points.map((point) => point.value)));
  const { svg, left, right, x, y } = drawFrame(plot, width, most);
  const inside = (time) => Math.min(right, Math.max(left, x(time)));
  for (const { name, colour, points } of seen) {
    let path = "";
    for (const point of points) {
      const start = inside(point.start), end = Math.max(start + 1, inside(point.end)), height = y(point.value);
      path += `${path ? "L" : "M"}${start} ${height}L${end} ${height}`;
    }
    if (path) add(svg, "path", { class: `line c${colour}`, d: path });
    for (const point of points) {
      const start = inside(point.start), end = Math.max(start + 1, inside(point.end));
      const mark = add(svg, "rect", { class: `mark step k${colour}`, x: start, y: y(point.value) - 3, width: end - start, height: 6 });
      tips.set(mark, [["", name], ...point.lines]);
    }
  }
  return { svg, left, right };
}

function drawRanking(plot, width) {
  const thickness = plot.spec.values.length * ROW;
  const layout = laneLayout(plot.lanes, width, thickness);
  const right = width - 52, height = plot.items.length * layout.lane + 6 + AXIS_HEIGHT - 10;
  const svg = newSvg(plot, width, height);
  drawNumberAxis(svg, plot.view, layout.left, right, height);
  const x = scale(plot.view, layout.left, right);
  const inside = (value) => Math.min(right, Math.max(layout.left, x(value)));
  plot.items.forEach((item, at) => {
    const top = at * layout.lane;
    const y = top + (layout.narrow ? 18 : 4);
    const marked = item.mark !== null && item.mark >= plot.view.range[0] && item.mark <= plot.view.range[1];
    const line = marked ? x(item.mark) : null;
    drawLaneName(svg, layout, plot.lanes[at], top, thickness);
    item.values.forEach((value, series) => {
      const start = inside(0), end = inside(value ?? 0);
      const mark = add(svg, "rect", { class: `mark k${plot.colours.get(plot.spec.values[series])}`, x: start, y: y + series * ROW, width: Math.max(0.5, end - start), height: 11, rx: 1 });
      tips.set(mark, item.lines);
      // The number follows its bar, or the line where the line would cross the number.
      const after = end + 8 + item.texts[series].length * CHAR_WIDTH;
      const place = line !== null && line > end - 3 && line < after ? line : end;
      add(svg, "text", { x: place + 5, y: y + series * ROW + 9.5 }, item.texts[series]);
    });
    if (line !== null) add(svg, "line", { class: "mean", x1: line, x2: line, y1: y - 2, y2: y + thickness - 1 });
  });
  return { svg, left: layout.left, right };
}

function newSvg(plot, width, height) {
  const svg = document.createElementNS(SVG, "svg");
  svg.setAttribute("viewBox", `0 0 ${width} ${height}`);
  svg.setAttribute("role", "img");
  svg.setAttribute("aria-label", `${plot.spec.title}. The table below has the same figures.`);
  return svg;
}
