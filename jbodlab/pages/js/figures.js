"use strict";

// Plots read their figures from the tables of the page, so that both always agree.

const byNature = new Intl.Collator("en", { numeric: true }).compare;

function readFigure(table) {
  const heads = [...table.tHead.rows[0].cells];
  const rows = [...table.tBodies[0].rows].map((row) => readRow(row, heads));
  return { rows };
}

function readRow(row, heads) {
  const values = {}, texts = {}, lines = [];
  [...row.cells].forEach((cell, at) => {
    const name = cell.dataset.column;
    values[name] = readValue(cell, heads[at].dataset.unit);
    texts[name] = cell.textContent;
    lines.push([heads[at].textContent, cell]);
  });
  return { values, texts, lines };
}

function readValue(cell, unit) {
  if (cell.hasAttribute("data-null")) return null;
  const text = cell.dataset.value ?? cell.textContent;
  switch (unit) {
    case "time": return readTime(text);
    case "day": return readTime(text + "T00:00:00.000Z");
    case "number": case "duration": case "share": case "deviation": case "elapsed": return Number(text);
    default: return text;
  }
}

function readTime(text) {
  const time = Date.parse(text);
  return Number.isNaN(time) ? null : time;
}

const SECOND = 1000, MINUTE = 60 * SECOND, HOUR = 60 * MINUTE, DAY = 24 * HOUR;

// Times are those of a calendar, or milliseconds since the start of a run.
const isElapsed = document.body.hasAttribute("data-elapsed");

// Times are shown in UTC, or as the clocks of the reader show them.
let isLocal = false;

function readMoment(text) {
  return isElapsed && text ? Number(text) : readTime(text);
}

// A time whose UTC text is the one to be shown.
function shown(time) {
  return isLocal ? time - new Date(time).getTimezoneOffset() * MINUTE : time;
}

function zoneText() {
  return isLocal ? "local time" : "UTC";
}

// Times as the tables print them, as short as the distance of neighbours allows.
function timeText(time, step) {
  if (isElapsed) return `${(time / SECOND).toFixed(step >= SECOND ? 0 : step >= 100 ? 1 : 3)} s`;
  const iso = new Date(shown(time)).toISOString();
  if (step >= DAY) return iso.slice(0, -14);
  if (step >= MINUTE) return iso.slice(-13, -8);
  return step >= SECOND ? iso.slice(-13, -5) : iso.slice(-13, -1);
}

function dayText(time) {
  return isElapsed ? "" : new Date(shown(time)).toISOString().slice(0, -14);
}

function momentText(time) {
  return isElapsed ? `${(time / SECOND).toFixed(3)} s` : new Date(shown(time)).toISOString().slice(0, -1).replace("T", " ");
}

// Writes all times of the tables anew; what was not a time in the first place stays.
function showTimes() {
  for (const cell of document.querySelectorAll("[data-time]")) {
    const time = readTime(cell.dataset.value);
    if (time !== null) cell.textContent = momentText(time);
  }
}

function rangeText([from, to]) {
  if (isElapsed) return `${momentText(from)} to ${momentText(to)}`;
  const step = to - from > 2 * DAY ? MINUTE : to - from > 2 * MINUTE ? SECOND : 1;
  const start = `${dayText(from)} ${timeText(from, step)}`;
  const end = dayText(from) === dayText(to) ? timeText(to, step) : `${dayText(to)} ${timeText(to, step)}`;
  return `${start} to ${end} ${zoneText()}`;
}

function shorten(text, chars) {
  return text.length <= chars ? text : text.slice(0, Math.max(1, chars - 1)) + "…";
}
