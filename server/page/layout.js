// SPDX-License-Identifier: MIT
// A web worker that computes the layout of a graph with dagre, so that the page stays responsive.
import dagre from "./vendor/dagre.esm.js";

addEventListener("message", ({data: {nodes, edges}}) => {
  const graph = new dagre.graphlib.Graph();
  graph.setGraph({rankdir: "TB", nodesep: 18, ranksep: 34, marginx: 12, marginy: 12});
  graph.setDefaultEdgeLabel(() => ({}));
  for (const {id, width, height} of nodes) graph.setNode(id, {width, height});
  for (const [from, to] of edges) graph.setEdge(from, to);
  dagre.layout(graph);
  const {width, height} = graph.graph();
  postMessage({width, height, nodes: nodes.map(({id}) => ({x: graph.node(id).x, y: graph.node(id).y})), edges: edges.map(([from, to]) => graph.edge(from, to).points)});
});
