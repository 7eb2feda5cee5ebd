// A view is the visible part of an axis. All plots over time share one view.

class View {
  constructor(full, minSpan) {
    this.full = full;
    this.minSpan = minSpan;
    this.range = [...full];
    this.listeners = [];
  }

  get span() { return this.range[1] - this.range[0]; }

  get whole() { return this.range[0] === this.full[0] && this.range[1] === this.full[1]; }

  // Shows a part of this width, moved into the full range; returns whether the view changed.
  show(from, to) {
    const all = this.full[1] - this.full[0];
    const span = Math.min(all, Math.max(this.minSpan, to - from));
    const middle = (from + to) / 2;
    const start = Math.min(Math.max(this.full[0], middle - span / 2), this.full[1] - span);
    const next = span >= all ? [...this.full] : [start, start + span];
    if (next[0] === this.range[0] && next[1] === this.range[1]) return false;
    this.range = next;
    this.listeners.forEach((listener) => listener());
    return true;
  }

  // A factor above 1 shows less; the value `at` stays in its place.
  zoom(factor, at) {
    const [from, to] = this.range;
    const span = Math.max(this.minSpan, this.span / factor);
    const share = (at - from) / (to - from);
    const start = Math.max(this.full[0], at - share * span);
    return this.show(start, start + span);
  }

  pan(distance) {
    return this.show(this.range[0] + distance, this.range[1] + distance);
  }

  reset() { return this.show(...this.full); }
}

const TIME_STEPS = [
  1, 2, 5, 10, 20, 50, 100, 200, 500,
  ...[1, 2, 5, 10, 15, 30].map((n) => n * SECOND), ...[1, 2, 5, 10, 15, 30].map((n) => n * MINUTE),
  ...[1, 2, 3, 6, 12].map((n) => n * HOUR),
  ...[1, 2, 4, 7, 14, 28, 91, 182, 364].map((n) => n * DAY),
];

function timeStep(span, ticks) {
  const wanted = span / Math.max(1, ticks);
  return TIME_STEPS.find((step) => step >= wanted) ?? Math.ceil(wanted / (364 * DAY)) * 364 * DAY;
}

function numberStep(span, ticks) {
  const wanted = Math.max(span / Math.max(1, ticks), 1e-9);
  const power = 10 ** Math.floor(Math.log10(wanted));
  const step = [1, 2, 5, 10].find((n) => n * power >= wanted * 0.999999) * power;
  return Math.max(1, step); // only whole things are counted here
}

// Ticks lie on whole days and hours of the clock that is shown.
function timeTicks([from, to], step) {
  const ahead = shown(from) - from;
  return ticksOf([from + ahead, to + ahead], step).map((tick) => tick - ahead);
}

function ticksOf([from, to], step) {
  const ticks = [];
  for (let tick = Math.ceil(from / step) * step; tick <= to && ticks.length < 100; tick += step) ticks.push(tick);
  return ticks;
}
