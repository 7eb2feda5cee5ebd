// Wheel, mouse, touch and keyboard, for one plot.

const KEEP_SCROLLING_MS = 250, WHEEL_STEP = 0.0018, CLICK_PX = 4;

const tip = document.getElementById("tip");

// A turn of the wheel that began outside of plots goes on scrolling the page across them.
let scrolledAt = -Infinity;
addEventListener("wheel", (event) => {
  if (!(event.target instanceof Element) || !event.target.closest(".chart")) scrolledAt = event.timeStamp;
}, { passive: true, capture: true });

function attachGestures(plot) {
  const chart = plot.chart;
  const pointers = new Map();
  let brush = null;

  const valueAt = (clientX) => {
    const box = chart.getBoundingClientRect();
    const place = ((clientX - box.left) * plot.width) / box.width;
    const share = (place - plot.left) / Math.max(1, plot.right - plot.left);
    return plot.view.range[0] + Math.min(1, Math.max(0, share)) * plot.view.span;
  };
  const perPixel = () => plot.view.span / Math.max(1, plot.right - plot.left);

  chart.addEventListener("wheel", (event) => {
    if (event.timeStamp - scrolledAt < KEEP_SCROLLING_MS && !event.ctrlKey) {
      scrolledAt = event.timeStamp;
      return;
    }
    const lines = event.deltaMode === 1 ? 20 : event.deltaMode === 2 ? 400 : 1;
    const sideways = Math.abs(event.deltaX) > Math.abs(event.deltaY);
    const changed = sideways
      ? plot.view.pan(event.deltaX * lines * perPixel())
      : plot.view.zoom(Math.exp(-event.deltaY * lines * WHEEL_STEP * (event.ctrlKey ? 4 : 1)), valueAt(event.clientX));
    if (changed || event.ctrlKey) event.preventDefault();
    else scrolledAt = event.timeStamp; // all is shown: the page may scroll on
  }, { passive: false });

  chart.addEventListener("pointerdown", (event) => {
    if (event.pointerType === "mouse" && event.button !== 0) return;
    pointers.set(event.pointerId, event.clientX);
    chart.setPointerCapture(event.pointerId);
    brush = event.pointerType === "mouse" && !event.shiftKey ? { from: event.clientX, to: event.clientX } : null;
    if (event.pointerType !== "mouse") showTip(event);
  });

  chart.addEventListener("pointermove", (event) => {
    const before = pointers.get(event.pointerId);
    if (before === undefined) {
      showTip(event);
      return;
    }
    if (brush) {
      brush.to = event.clientX;
      drawBrush(plot, brush);
    } else if (pointers.size === 2) {
      const [other] = [...pointers].filter(([id]) => id !== event.pointerId).map(([, x]) => x);
      const near = Math.max(20, Math.abs(before - other)), now = Math.max(20, Math.abs(event.clientX - other));
      plot.view.zoom(now / near, valueAt((event.clientX + other) / 2));
    } else {
      plot.view.pan((before - event.clientX) * perPixel());
    }
    pointers.set(event.pointerId, event.clientX);
    if (!brush && Math.abs(event.clientX - before) > CLICK_PX) tip.hidden = true;
  });

  const release = (event) => {
    pointers.delete(event.pointerId);
    const drawn = brush;
    brush = null;
    plot.svg.querySelector(".brush")?.remove();
    if (drawn && event.type === "pointerup" && Math.abs(drawn.to - drawn.from) > CLICK_PX) {
      const ends = [valueAt(drawn.from), valueAt(drawn.to)].sort((a, b) => a - b);
      plot.view.show(...ends);
    }
  };
  chart.addEventListener("pointerup", release);
  chart.addEventListener("pointercancel", release);
  chart.addEventListener("pointerleave", () => { tip.hidden = true; });
  chart.addEventListener("dblclick", () => plot.view.reset());

  chart.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const action = {
      "+": () => zoomMiddle(plot, 1.5), "=": () => zoomMiddle(plot, 1.5), "-": () => zoomMiddle(plot, 1 / 1.5),
      ArrowLeft: () => plot.view.pan(-plot.view.span / 5), ArrowRight: () => plot.view.pan(plot.view.span / 5),
      0: () => plot.view.reset(), Escape: () => plot.view.reset(),
    }[event.key];
    if (!action) return;
    action();
    event.preventDefault();
  });
}

function zoomMiddle(plot, factor) {
  plot.view.zoom(factor, (plot.view.range[0] + plot.view.range[1]) / 2);
}

function drawBrush(plot, { from, to }) {
  const box = plot.chart.getBoundingClientRect();
  const place = (clientX) => Math.min(plot.right, Math.max(plot.left, ((clientX - box.left) * plot.width) / box.width));
  const rect = plot.svg.querySelector(".brush") ?? add(plot.svg, "rect", { class: "brush", y: 0 });
  const [start, end] = [place(from), place(to)].sort((a, b) => a - b);
  rect.setAttribute("x", start);
  rect.setAttribute("width", end - start);
  rect.setAttribute("height", plot.svg.viewBox.baseVal.height - AXIS_HEIGHT);
}

function showTip(event) {
  const lines = tips.get(event.target);
  tip.hidden = !lines;
  if (!lines) return;
  tip.replaceChildren(...lines.map(([title, text]) => {
    const line = document.createElement("div"), name = document.createElement("b");
    name.textContent = title ? `${title}: ` : "";
    // The text of a cell is that of now: times may have been written anew.
    line.append(name, text instanceof Element ? text.textContent : text);
    return line;
  }));
  const box = tip.getBoundingClientRect();
  const x = event.clientX + 14 + box.width > innerWidth ? event.clientX - 14 - box.width : event.clientX + 14;
  const y = event.clientY + 14 + box.height > innerHeight ? event.clientY - 14 - box.height : event.clientY + 14;
  tip.style.left = `${Math.max(4, x)}px`;
  tip.style.top = `${Math.max(4, y)}px`;
}
