// SPDX-License-Identifier: MIT
// Curves over steps or time, drawn by uPlot.
import {h, seriesColour, seriesDash} from "./dom.js";
import {duration, short} from "./format.js";

const HEIGHT = 260;
let uPlot;

/** Load uPlot. The caller must await this before it makes the first chart. */
export async function loadPlot() {
  uPlot ??= (await import("./vendor/uPlot.iife.min.js")).default;
}

function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

/**
 * The exponential moving mean of `values` without bias at the beginning. `weight` is the weight of the previous mean, from 0
 * to below 1.
 */
export function smooth(values, weight) {
  let sum = 0, norm = 0;
  return values.map((value) => {
    if (value === null) return null;
    sum = weight * sum + (1 - weight) * value;
    norm = weight * norm + (1 - weight);
    return sum / norm;
  });
}

/**
 * A chart in the element `place`, which lives until `signal` is aborted. `set(curves, {log, time})` draws the chart. A curve is
 * {label, series, x, y, faint, points}. With `time`, x is in seconds.
 */
export class Chart {
  constructor(place, signal) {
    this.place = place;
    this.curves = [];
    this.form = "";
    const observer = new ResizeObserver(() => this.plot?.setSize({width: this.width(), height: HEIGHT}));
    observer.observe(place);
    document.addEventListener("themechange", () => this.redraw(), {signal});
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.redraw(), {signal});
    signal.addEventListener("abort", () => {
      observer.disconnect();
      this.plot?.destroy();
    });
  }

  width() {
    return Math.max(200, this.place.clientWidth);
  }

  redraw() {
    this.form = "";
    this.set(this.curves, this.options);
  }

  set(curves, options = {}) {
    this.curves = curves;
    this.options = options;
    if (curves.length === 0) return;
    const positive = options.log && curves.some((curve) => curve.y.some((value) => value > 0));
    const data = uPlot.join(curves.map((curve) => [curve.x, positive ? curve.y.map((value) => (value > 0 ? value : null)) : curve.y]));
    const form = JSON.stringify([positive, options.time, curves.map(({label, series, faint, points}) => [label, series, faint, points])]);
    if (form === this.form) return this.plot.setData(data);
    this.form = form;
    this.plot?.destroy();
    this.plot = new uPlot(this.describe(curves, positive, options.time), data, this.place);
  }

  describe(curves, log, time) {
    const axis = {stroke: colour("--quiet"), grid: {stroke: colour("--line"), width: 1}, ticks: {show: false}, font: "12px system-ui, sans-serif"};
    return {
      width: this.width(), height: HEIGHT, padding: [8, 12, 0, 0],
      scales: {x: {time: false}, y: {distr: log ? 3 : 1, range: log ? undefined : rangeOf}},
      cursor: {points: {size: 6}, drag: {x: true, y: false}},
      legend: {markers: {width: 0, fill: (_, i) => (i > 0 ? seriesColour(curves[i - 1].series) + (curves[i - 1].faint ? "55" : "") : undefined)}},
      axes: [
        {...axis, values: (_, splits) => splits.map((value) => (time ? duration(value) : shortAxis(value)))},
        {...axis, size: 62, values: (_, splits) => splits.map((value) => (value === null ? "" : shortAxis(value)))},
      ],
      series: [
        {label: time ? "Time" : "Step", value: (_, value) => (value === null ? "" : time ? duration(value) : short(value))},
        ...curves.map((curve) => ({
          label: curve.label, stroke: seriesColour(curve.series) + (curve.faint ? "55" : ""), width: curve.faint ? 1 : 2, dash: curve.faint ? [] : seriesDash(curve.series),
          spanGaps: true, points: {show: curve.points ?? false, size: 5}, value: (_, value) => (value === null ? "" : short(value)),
        })),
      ],
    };
  }
}

function rangeOf(_, low, high) {
  if (low === null) return [0, 1];
  const room = (high - low) * 0.06 || Math.abs(high) * 0.1 || 1;
  return [low >= 0 && low - room < 0 ? 0 : low - room, high + room];
}

function shortAxis(value) {
  const size = Math.abs(value);
  if (size >= 1e6) return `${Number((value / 1e6).toPrecision(4))} M`;
  if (size >= 1e4) return `${Number((value / 1e3).toPrecision(4))} k`;
  return size !== 0 && size < 1e-3 ? value.toExponential(0) : String(Number(value.toPrecision(4)));
}

/** A small line without axes. */
export function sparkline(values, label) {
  const known = values.filter((value) => Number.isFinite(value));
  if (known.length < 2) return h("span", {class: "quiet"}, "");
  const low = Math.min(...known), span = Math.max(...known) - low || 1;
  const points = values.map((value, i) => (Number.isFinite(value) ? `${(i * 118 / (values.length - 1) + 1).toFixed(1)},${(23 - (value - low) / span * 20).toFixed(1)}` : "")).join(" ");
  return h("svg", {class: "spark", width: 120, height: 26, viewBox: "0 0 120 26", role: "img", "aria-label": label}, h("polyline", {points}));
}
