// SPDX-License-Identifier: MIT
// Builders of graphs and programs. This file does not use the network.
import {dtypeInfo} from "./dtype.js";
import {DEFAULTS, GraphOps, LISTED, NodeOps} from "./ops.js";
import {isPlainObject} from "./values.js";

const END = 2 ** 40; // past the end of every axis; the server clips a stop

/** A handle of an input, a state or a result of a Graph. It holds no numbers: run the graph to get them. */
export class Node extends NodeOps {
  constructor(graph, id) {
    super();
    this.graph = graph;
    this.id = id;
  }

  /**
   * A part of the tensor. Each argument selects along one axis, from the first axis on: an integer selects one place and drops the axis,
   * [start, stop] or [start, stop, step] is a range, null selects all. `x.at(0, [1, 3])` is Python's x[0, 1:3].
   */
  at(...places) {
    const cuts = places.map(cutOf).filter((cut) => cut !== undefined);
    if (cuts.length === 0) return this;
    const [start, stop, step, axis] = ["start", "stop", "step", "axis"].map((member) => cuts.map((cut) => cut[member]));
    const part = this.slice({start, stop, step: step.every((size) => size === 1) ? null : step, axis});
    const gone = cuts.filter((cut) => cut.drops).map((cut) => cut.axis);
    return gone.length > 0 ? part.squeeze({axis: gone}) : part;
  }
}

/** The selection along an axis; undefined if it selects all. */
function cutOf(place, axis) {
  if (place === null) return undefined;
  if (Number.isInteger(place)) return {axis, start: place, stop: place === -1 ? END : place + 1, step: 1, drops: true};
  if (!Array.isArray(place)) throw new TypeError("at() takes whole numbers, lists [start, stop, step] and null");
  const [start, stop, step] = place;
  return {axis, start: start ?? 0, stop: stop ?? END, step: step ?? 1, drops: false};
}

/**
 * A graph under construction, to run once or as an entry of a Program.
 *
 *     const g = new Graph();
 *     const x = g.input("x", ["batch", 784]);
 *     g.output({total: x.mul(2).sum({axis: 1})});
 */
export class Graph extends GraphOps {
  constructor(program = undefined) {
    super();
    this.program = program;
    this.inputs = new Map(); // name -> {dtype, shape}, undefined where the values say it
    this.dims = {};
    this.names = new Set();
    this.steps = []; // {results, op, operands, attrs}, tensors as Nodes
    this.outputs = []; // Nodes
    this.updates = new Map(); // name of the state -> Node
  }

  // ---- names

  /** Whether an input, a state or a node has the name; all of them share one namespace. */
  isTaken(name) {
    return this.names.has(name) || (this.program?.states.has(name) ?? false);
  }

  takeName(name) {
    if (this.isTaken(name)) throw new RangeError(`"${name}" is there twice`);
    this.names.add(name);
    return name;
  }

  freshName(op) {
    let name = op;
    for (let number = 2; this.isTaken(name); number++) name = `${op}${number}`;
    return name;
  }

  // ---- inputs and outputs

  /** Declares a named dimension with the sizes least, least + step, ..., most. Returns the name, which is a size in shapes. */
  dim(name, least, most, step = 1) {
    this.dims[name] = step === 1 ? [least, most] : [least, most, step];
    return name;
  }

  /**
   * An input. An input of a program needs a shape; in a run the shape is that of the value, and typed arrays get the declared shape.
   *
   * shape: sizes, some of which may be names of dimensions
   * dtype: values are converted to it; by default a typed array keeps its dtype, and numbers and inputs of programs are float32
   */
  input(name, shape = undefined, dtype = undefined) {
    if (dtype !== undefined) dtypeInfo(dtype);
    this.inputs.set(this.takeName(name), {dtype, shape: shape && [...shape]});
    return new Node(this, name);
  }

  /** A state of the program that this graph is an entry of. */
  state(name) {
    if (!this.program?.states.has(name)) throw new RangeError(`the program has no state "${name}"`);
    return new Node(this, name);
  }

  /** Declares outputs: Nodes, whose ids are their names, and objects of Nodes by name. */
  output(...outputs) {
    for (const output of outputs) {
      const named = output instanceof Node ? [[output.id, output]] : Object.entries(output);
      // One after the other, because rename() copies a Node that is an output already.
      for (const [name, node] of named) this.outputs.push(this.rename(node, name));
    }
    return this;
  }

  /** Declares the new values of states after a step: Nodes by name of the state. */
  update(nodes) {
    for (const [name, node] of Object.entries(nodes)) this.updates.set(name, node);
    return this;
  }

  /** Gives a Node another id. An input, a state or an output keeps its id, and the result is a copy. */
  rename(node, name) {
    if (node.id === name) return node;
    const isMade = this.steps.some(({results}) => results.includes(node));
    if (!isMade || this.outputs.includes(node)) return this.op("contiguous", [node], {}, {name});
    this.takeName(name);
    this.names.delete(node.id);
    node.id = name;
    return node;
  }

  // ---- nodes

  /**
   * Adds a node by the name of its op. All methods of ops end here.
   *
   * operands: Nodes and numbers; undefined omits an optional operand, which only the last ones may be
   * attrs: attributes by name; null and undefined are omitted
   * name: the id, or the list of ids of an op with several results     results: the number of results of such an op; the result is a list
   */
  op(op, operands, attrs = {}, {name, results} = {}) {
    if (LISTED.has(op) && results === undefined) {
      throw new TypeError(`${op}: say how many results there are, as in {results: 2}`);
    }
    if (!LISTED.has(op) && results !== undefined) throw new TypeError(`${op} has one result, which is no list`);
    const given = dropLast(operands);
    given.forEach((operand) => this.checkOperand(op, operand));
    const made = this.makeIds(op, name, results ?? 1).map((id) => new Node(this, this.takeName(id)));
    this.steps.push({results: made, op, operands: given, attrs: dropPresets(op, attrs)});
    return results === undefined ? made[0] : made;
  }

  /** The body of the methods of ops. options: name, results, optional inputs and attributes. */
  call(op, operands, required, options = {}, {optional = [], results} = {}) {
    if (!isPlainObject(options)) {
      throw new TypeError(`${op}: options go into one object, as in {name: "y"}, and not ${describe(options)}`);
    }
    operands.forEach((operand) => this.checkOperand(op, operand)); // none of these is optional
    const {name, results: count, ...members} = options;
    const inputs = optional.map((input) => members[input] ?? undefined);
    const attrs = Object.entries(members).filter(([member]) => !optional.includes(member));
    return this.op(
      op,
      [...operands, ...inputs],
      {...required, ...Object.fromEntries(attrs)},
      {name, results: results ?? count},
    );
  }

  makeIds(op, name, count) {
    const base = name ?? this.freshName(op);
    const ids = Array.isArray(base) ? base : Array.from({length: count}, (_, i) => (i === 0 ? base : `${base}.${i}`));
    if (ids.length !== count) throw new RangeError(`${op} has ${count} results, but ${ids.length} names were given`);
    return ids;
  }

  checkOperand(op, operand) {
    if (operand instanceof Node) {
      if (operand.graph !== this) throw new RangeError(`${op}: "${operand.id}" belongs to another graph`);
    } else if (!["number", "bigint", "boolean"].includes(typeof operand)) {
      throw new TypeError(
        `${op}: an operand is a Node of the graph or a number, not ${describe(operand)}; other values go in as inputs`,
      );
    }
  }

  /**
   * The gradients of y with respect to xs: a list of Nodes.
   *
   * y: a Node of floats with one element, or of any shape if `cotangent` (dL/dy in the shape of y) is given
   * xs: inputs, states or other Nodes of floats; the gradient of one on which y does not depend is zero
   */
  grad(y, xs, {cotangent, name} = {}) {
    return this.op(
      "grad",
      [y, ...xs, cotangent],
      {cotangent: cotangent === undefined ? null : true},
      {name, results: xs.length},
    );
  }

  /**
   * A loop on the server. Returns [carries, outputs], two lists of Nodes.
   *
   *     const [[total], [sums]] = g.scan((h, x) => [[h.add(x)], [h.add(x)]], [0], {xs: [xs]});
   *
   * step: builds the body: step(...carries, ...slices, ...args) returns [next carries, outputs], two lists. It is called once, and can use
   *     only its arguments: other Nodes of the graph are passed by args
   * init: the first values of the carries; the next carries have their dtypes and shapes
   * xs: Nodes [length, ...]; each step gets a slice of their first axis     args: Nodes that are the same in each step
   * length: the number of steps, if there are no xs     reverse: from the last slice to the first
   */
  scan(step, init, {xs = [], args = [], length, reverse, name} = {}) {
    const {body, lists} = makeBody(step, init.length + xs.length + args.length, 2);
    const [carries, outputs] = lists;
    if (carries.length !== init.length) {
      throw new RangeError(`the body of scan makes ${carries.length} carries of ${init.length}`);
    }
    const attrs = {body, carries: init.length, sequences: xs.length, length, reverse};
    const made = this.op("scan", [...init, ...xs, ...args], attrs, {name, results: carries.length + outputs.length});
    return [made.slice(0, carries.length), made.slice(carries.length)];
  }

  /**
   * then(...xs) if p, of one element, is true, else otherwise(...xs); each builds a body and returns a list of Nodes.
   *
   * The server computes both and selects one; gradients flow through the selected one.
   */
  cond(p, then, otherwise, xs = [], {name} = {}) {
    const yes = makeBody((...params) => [then(...params)], xs.length, 1);
    const no = makeBody((...params) => [otherwise(...params)], xs.length, 1);
    const results = yes.lists[0].length;
    if (results !== no.lists[0].length) {
      throw new RangeError(`the bodies of cond give ${results} and ${no.lists[0].length} results`);
    }
    return this.op("cond", [p, ...xs], {then: yes.body, otherwise: no.body}, {name, results});
  }

  // ---- documents

  /** The document of the graph: nodes, outputs and updates. */
  document() {
    const document = {nodes: this.steps.map(describeStep), outputs: this.outputs.map(({id}) => id)};
    if (this.updates.size > 0) document.updates = idsOf(this.updates);
    return document;
  }

  /** For Client.run: the document, and the declared inputs. */
  request() {
    const named = [...this.inputs].filter(([, {shape}]) => shape?.some((size) => typeof size === "string"));
    const document = this.document();
    if (Object.keys(this.dims).length > 0) document.dims = this.dims;
    if (named.length > 0) document.shapes = Object.fromEntries(named.map(([name, {shape}]) => [name, shape]));
    return {document, declared: Object.fromEntries(this.inputs)};
  }

  /** The document of the graph as an entry of a program. */
  entry() {
    for (const [name, {shape}] of this.inputs) {
      if (shape === undefined) throw new RangeError(`the input "${name}" of a program needs a shape`);
    }
    const inputs = [...this.inputs].map(([name, {dtype = "float32", shape}]) => [name, {dtype, shape}]);
    return {inputs: Object.fromEntries(inputs), ...this.document()};
  }
}

/**
 * State, and graphs over this state. `client.programs.put` defines it on the server.
 *
 *     const p = new Program({w: [0], b: {op: "zeros", attrs: {shape: [1]}}});
 *     const g = p.entry("main");
 *     const w = g.state("w");
 *
 * states: the first values by name: numbers, typed arrays, Tensors; {dtype, shape}, which is zeros; {op, attrs}, any creation or random op; {tensor}
 * batching: how the server joins runs of several clients: {max_rows, delay_us, preferred_rows, max_waiting}; false: not at all
 */
export class Program {
  constructor(states = {}, {batching} = {}) {
    this.states = new Map(Object.entries(states));
    this.entries = new Map();
    this.batching = batching;
  }

  /** Declares a state by its first value. */
  state(name, value) {
    this.states.set(name, value);
    return this;
  }

  /** Adds an entry: a graph over the states, which runs and jobs select by name. */
  entry(name = "main") {
    if (this.entries.has(name)) throw new RangeError(`the entry "${name}" is there twice`);
    this.entries.set(name, new Graph(this));
    return this.entries.get(name);
  }

  /** The document of the program; the values of its state may be typed arrays and Tensors. */
  document() {
    const dims = Object.assign({}, ...[...this.entries.values()].map((graph) => graph.dims));
    const document = Object.keys(dims).length > 0 ? {dims} : {};
    if (this.batching !== undefined) document.batching = this.batching;
    if (this.states.size > 0) document.state = Object.fromEntries(this.states);
    if (this.entries.size === 1 && this.entries.has("main")) return {...document, ...this.entries.get("main").entry()};
    return {...document, entries: Object.fromEntries([...this.entries].map(([name, graph]) => [name, graph.entry()]))};
  }
}

/** {body, lists}: the graph that a function builds from `count` Nodes, as an attribute, and the lists that the function returned. */
function makeBody(make, count, parts) {
  const inner = new Graph();
  const params = Array.from({length: count}, () => new Node(inner, inner.takeName(inner.freshName("x"))));
  const lists = make(...params);
  const isWhole = Array.isArray(lists) && lists.length === parts && lists.every(Array.isArray);
  if (!isWhole || !lists.flat().every((node) => node instanceof Node && node.graph === inner)) {
    throw new RangeError("a body gives lists of Nodes that it made of what it was handed");
  }
  inner.outputs = lists.flat();
  return {body: {inputs: params.map(({id}) => id), ...inner.document()}, lists};
}

function describeStep({results, op, operands, attrs}) {
  const ids = results.map(({id}) => id);
  const node = {
    id: LISTED.has(op) ? ids : ids[0],
    op,
    in: operands.map((operand) => (typeof operand === "boolean" ? Number(operand) : idOf(operand))),
  };
  const given = Object.entries(attrs).map(([name, value]) => [name, idOf(value)]);
  return given.length > 0 ? {...node, attrs: Object.fromEntries(given)} : node;
}

/** The id of a Node; other values as they are. */
function idOf(value) {
  return value instanceof Node ? value.id : value;
}

function idsOf(nodes) {
  return Object.fromEntries([...nodes].map(([name, node]) => [name, node.id]));
}

/** A list without undefined operands at its end. */
function dropLast(operands) {
  const last = operands.findLastIndex((operand) => operand !== undefined && operand !== null);
  return operands.slice(0, last + 1);
}

/** The given attributes, without those that equal the server's default. */
function dropPresets(op, attrs) {
  const presets = Object.hasOwn(DEFAULTS, op) ? DEFAULTS[op] : {};
  const isGiven = ([name, value]) =>
    value !== undefined && value !== null && !(Object.hasOwn(presets, name) && isPreset(value, presets[name]));
  return Object.fromEntries(Object.entries(attrs).filter(isGiven));
}

function isPreset(value, preset) {
  if (!Array.isArray(preset)) return value === preset;
  return Array.isArray(value) && value.length === preset.length && value.every((item, i) => item === preset[i]);
}

function describe(value) {
  return value instanceof Node ? `the Node "${value.id}"` : `${JSON.stringify(value) ?? value}`;
}
