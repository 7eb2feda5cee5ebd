"use strict";
// One cursor through all lanes; a click, or Enter on an event, marks the events nearby.
for (const svg of document.querySelectorAll("svg.run")) {
  const line = svg.querySelector(".cursor");
  const { left, right, length } = svg.dataset;
  const rows = [...svg.closest("section").querySelectorAll("tr[data-t]")];
  let fixed = false;
  const at = (event) => {
    const box = svg.getBoundingClientRect();
    const x = ((event.clientX - box.left) / box.width) * svg.viewBox.baseVal.width;
    return Math.min(Math.max(x, +left), +right);
  };
  const show = (x) => {
    line.setAttribute("x1", x);
    line.setAttribute("x2", x);
    line.setAttribute("visibility", "visible");
  };
  const mark = (seconds) => {
    for (const row of rows) row.classList.toggle("near", Math.abs(row.dataset.t - seconds) < 0.25);
    const first = rows.find((row) => row.classList.contains("near"));
    if (first) {
      first.closest("details").open = true;
      first.scrollIntoView({ block: "nearest" });
    }
  };
  svg.addEventListener("mousemove", (event) => { if (!fixed) show(at(event)); });
  svg.addEventListener("click", (event) => {
    const x = at(event);
    fixed = !fixed;
    show(x);
    if (fixed) mark(((x - left) / (right - left)) * length);
  });
  for (const row of rows) {
    row.tabIndex = 0;
    const go = () => {
      fixed = true;
      show(+left + (row.dataset.t / length) * (right - left));
    };
    row.addEventListener("focus", go);
  }
}
