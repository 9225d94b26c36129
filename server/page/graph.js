// SPDX-License-Identifier: MIT
// A drawing of a graph that the user can move and scale. A node has the colour of the kernel that computes it. A node of
// several kernels has a strip of each colour.
import {h, morph, seriesClass, table, toolbar} from "./dom.js";
import {count, shape} from "./format.js";

const MOST_NODES = 800;   // a larger graph is drawn with one node per kernel
const MOST_KERNELS = 400; // a plan with more kernels is not drawn
const LETTER = 7.2, ROW = 17;
const policy = globalThis.trustedTypes?.createPolicy("worker", {createScriptURL: (url) => {
  if (new URL(url).origin !== location.origin) throw new TypeError(url);
  return url;
}});

function makeWorker(path) {
  const url = new URL(path, import.meta.url).href;
  return new Worker(policy ? policy.createScriptURL(url) : url, {type: "module"});
}

/** Compute the layout of nodes and edges in a worker. Resolves to null when `signal` is aborted. */
function layOut(nodes, edges, signal) {
  return new Promise((resolve, reject) => {
    const worker = makeWorker("./layout.js");
    const end = (result) => {
      worker.terminate();
      resolve(result);
    };
    signal.addEventListener("abort", () => end(null), {once: true});
    worker.onmessage = ({data}) => end(data);
    worker.onerror = (event) => {
      worker.terminate();
      reject(new Error(event.message || "the layout failed"));
    };
    worker.postMessage({nodes: nodes.map(({id, width, height}) => ({id, width, height})), edges});
  });
}

function idOf(node) {
  return Array.isArray(node.id) ? node.id[0] : node.id;
}

/** Make the {nodes, edges} to draw: the nodes of the graph, or the kernels if there are too many nodes. */
function makeGraph(plan, rank) {
  const owner = new Map(), all = plan.nodes;
  all.forEach((node, i) => [node.id].flat().forEach((id) => owner.set(id, i)));
  const links = all.flatMap((node, i) => node.in.filter((each) => owner.has(each)).map((each) => [owner.get(each), i]));
  if (all.length <= MOST_NODES) {
    return {edges: distinct(links), nodes: all.map((node, i) => box(String(i), [node.op, `${idOf(node)} ${shape(node.shape)}`], node.kernels, rank))};
  }
  const kernel = (i) => all[i].kernels.at(-1);
  const edges = links.map(([from, to]) => [kernel(from), kernel(to)]).filter(([from, to]) => from !== undefined && to !== undefined && from !== to);
  return {edges: distinct(edges), nodes: plan.kernels.map((each) => box(String(each.index), [each.name, count(each.nodes.length, "node")], [each.index], rank))};
}

function distinct(edges) {
  return [...new Set(edges.map(([from, to]) => `${from} ${to}`))].map((each) => each.split(" "));
}

function box(id, lines, kernels, rank) {
  const words = lines.map((line) => (line.length > 34 ? `${line.slice(0, 33)}…` : line));
  return {id, lines: words, kernels, series: kernels.map((each) => rank.get(each)), width: Math.max(...words.map((word) => word.length)) * LETTER + 28, height: words.length * ROW + 10};
}

/**
 * Draw a plan in `place`. `rank` maps a kernel to its series. A click calls `choose` with a kernel. Resolves to a function
 * that marks a kernel.
 */
export async function drawGraph(place, plan, rank, choose, signal) {
  const {nodes, edges} = makeGraph(plan, rank);
  const list = h("details", {class: "numbers", ontoggle: (event) => {
    if (event.target.open) morph(event.target.lastChild, table(["Node", "Op", "Type", "Shape", "Kernel"], plan.nodes.slice(0, MOST_NODES).map((node) => [idOf(node), node.op, node.dtype, shape(node.shape), node.kernels.map((each) => plan.kernels[each]?.name).join(", ")]), {label: "Nodes"}));
  }}, h("summary", {}, `Nodes as a list${plan.nodes.length > MOST_NODES ? `, the first ${MOST_NODES}` : ""}`), h("div"));
  if (nodes.length > MOST_KERNELS && plan.nodes.length > MOST_NODES) {
    place.replaceChildren(h("p", {class: "quiet"}, `${count(plan.nodes.length, "node")} in ${count(nodes.length, "kernel")} are too many to draw.`), list);
    return () => {};
  }
  place.replaceChildren(h("p", {class: "quiet"}, "Laying out…"));
  const placed = await layOut(nodes, edges, signal);
  if (placed === null) return () => {};
  const marks = new Map();
  const drawn = nodes.map((node, i) => {
    const group = h("g", {class: `node ${node.series.length === 1 ? seriesClass(node.series[0]) : ""}`, transform: `translate(${placed.nodes[i].x - node.width / 2} ${placed.nodes[i].y - node.height / 2})`,
      onclick: () => node.kernels.length > 0 && choose(node.kernels[0])},
    h("rect", {width: node.width, height: node.height, rx: 5}),
    node.series.map((series, k) => h("rect", {class: `strip ${seriesClass(series)}`, x: 0, width: 7, y: node.height * k / node.series.length, height: node.height / node.series.length, onclick: (event) => {
      event.stopPropagation();
      choose(node.kernels[k]);
    }})), node.lines.map((line, k) => h("text", {x: 15, y: ROW * (k + 1) - 1, class: k > 0 ? "second" : ""}, line)));
    node.kernels.forEach((each) => marks.set(each, [...(marks.get(each) ?? []), group]));
    return group;
  });
  const lines = placed.edges.map((points) => h("path", {class: "edge", d: `M${points.map(({x, y}) => `${x.toFixed(1)} ${y.toFixed(1)}`).join("L")}`}));
  const svg = h("svg", {class: "graph", role: "img", "aria-label": `Graph of ${count(nodes.length, plan.nodes.length > MOST_NODES ? "kernel" : "node")}; the list below has the same`}, lines, drawn);
  place.replaceChildren(plan.nodes.length > MOST_NODES ? h("p", {class: "quiet"}, `${count(plan.nodes.length, "node")}: each box is a kernel.`) : "", h("div", {class: "canvas"}, svg, makeMovable(svg, placed)), list);
  return (kernel) => {
    drawn.forEach((group) => group.classList.remove("marked"));
    (marks.get(kernel) ?? []).forEach((group) => group.classList.add("marked"));
  };
}

/** Make a drawing movable and scalable. Returns the buttons of the drawing. */
function makeMovable(svg, {width, height}) {
  const whole = {x: 0, y: 0, width: Math.max(width, 300), height: Math.max(height, 200)};
  let view = {...whole}, from;
  const apply = () => svg.setAttribute("viewBox", `${view.x} ${view.y} ${view.width} ${view.height}`);
  const scale = (factor, x = 0.5, y = 0.5) => {
    view = {x: view.x + view.width * (1 - factor) * x, y: view.y + view.height * (1 - factor) * y, width: view.width * factor, height: view.height * factor};
    apply();
  };
  svg.onwheel = (event) => {
    if (!event.ctrlKey && !event.metaKey) return;
    event.preventDefault();
    const place = svg.getBoundingClientRect();
    scale(event.deltaY > 0 ? 1.15 : 1 / 1.15, (event.clientX - place.left) / place.width, (event.clientY - place.top) / place.height);
  };
  svg.onpointerdown = (event) => {
    from = {x: event.clientX, y: event.clientY, view: {...view}};
  };
  svg.onpointermove = (event) => {
    if (from === undefined || event.buttons === 0) return;
    const unit = Math.max(from.view.width / svg.clientWidth, from.view.height / svg.clientHeight);
    view = {...view, x: from.view.x - (event.clientX - from.x) * unit, y: from.view.y - (event.clientY - from.y) * unit};
    apply();
  };
  const set = (next) => () => {
    view = {...next};
    apply();
  };
  const shift = (x, y) => () => {
    view = {...view, x: view.x + view.width * x, y: view.y + view.height * y};
    apply();
  };
  // The first view has scale 1, or down to 1/2 if the graph is wide. It shows the top of the graph, centred horizontally.
  requestAnimationFrame(() => {
    const factor = Math.min(2, Math.max(1, width / svg.clientWidth));
    view = {x: (width - svg.clientWidth * factor) / 2, y: 0, width: svg.clientWidth * factor, height: svg.clientHeight * factor};
    if (svg.clientWidth > 0) apply();
  });
  return toolbar("View of the graph", [["+", "Closer", () => scale(1 / 1.4)], ["−", "Farther", () => scale(1.4)], ["↑", "Up", shift(0, -0.3)], ["↓", "Down", shift(0, 0.3)], ["All", "The whole graph", set(whole)]]);
}
