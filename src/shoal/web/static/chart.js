// A chart that the server drew, with the values under the cursor.
import { make } from "./elements.js";
import { about } from "./numbers.js";

/** Put a chart into an element; its colours are in charts.css. */
export function show(holder, text) {
  const chart = document.adoptNode(new DOMParser().parseFromString(text, "image/svg+xml").documentElement);
  const reading = make("p", { class: "reading", "aria-hidden": "true" });
  holder.replaceChildren(chart, reading);
  chart.addEventListener("pointermove", (event) => {
    reading.textContent = read(chart, event);
  });
  chart.addEventListener("pointerleave", () => {
    reading.textContent = "";
  });
}

/** Return the lines of a chart, each with its label and its points. */
function lines(chart) {
  return [...chart.querySelectorAll("[data-xs]")].map(({ dataset: { label = "", xs, ys } }) => {
    const heights = ys.split(" ").map(Number);
    return { label, points: xs.split(" ").map((x, i) => [Number(x), heights[i]]) };
  });
}

/** Return all points of a chart as CSV. */
export function csv(chart) {
  const quoted = (text) => `"${text.replaceAll('"', '""')}"`;
  const rows = lines(chart).flatMap(({ label, points }) => points.map((point) => [quoted(label), ...point].join(",")));
  return ["line,x,y", ...rows].join("\n") + "\n";
}

/** Return what the lines have where the cursor is. */
function read(chart, event) {
  const { left, right, xLow, xHigh, xScale } = chart.dataset;
  const box = chart.getBoundingClientRect();
  const at = ((event.clientX - box.left) / box.width) * chart.viewBox.baseVal.width;
  const part = (at - left) / (right - left);
  if (!(part >= 0 && part <= 1)) return "";
  const [low, high] = [Number(xLow), Number(xHigh)];
  const x = xScale === "log" ? low * (high / low) ** part : low + part * (high - low);
  const far = (point) => Math.abs(xScale === "log" ? Math.log(point[0] / x) : point[0] - x);
  const values = lines(chart).map(({ label, points }) => [label, points.reduce((best, point) => (far(point) < far(best) ? point : best))]);
  if (!values.length) return "";
  return `${about(values[0][1][0], 4)}: ${values.map(([label, point]) => `${label} ${about(point[1], 4)}`).join(" · ")}`;
}
