// SPDX-License-Identifier: MIT
// Graphs and programs as one builds them: nothing here speaks to a server.
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
   * A part: for each axis from the first on a whole number, which takes that place and drops the axis, a list [start, stop] or
   * [start, stop, step], or null for all of it. `x.at(0, [1, 3])` is Python's x[0, 1:3].
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

/** What is cut out of an axis; undefined where all of it stays. */
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

  /** Whether an input, a state or a node has the name: they share one namespace. */
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

  // ---- what goes in and comes out

  /** Give the range of a named dimension, which has the sizes least, least + step, ... up to most; sizes may then say the name. */
  dim(name, least, most, step = 1) {
    this.dims[name] = step === 1 ? [least, most] : [least, most, step];
    return name;
  }

  /**
   * An input. A program needs its shape; in a run the values have one, and typed arrays take this one.
   *
   * shape: sizes, some of which may be names of dimensions
   * dtype: what numbers and typed arrays become; by default a typed array keeps its own, and numbers are float32, as is an input of a program
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

  /** Results to send back: Nodes, under their ids, and objects of Nodes by the names that they get. */
  output(...outputs) {
    for (const output of outputs) {
      const named = output instanceof Node ? [[output.id, output]] : Object.entries(output);
      // One by one: a Node that is an output already is copied.
      for (const [name, node] of named) this.outputs.push(this.rename(node, name));
    }
    return this;
  }

  /** What the states become after a step: Nodes by name of the state. */
  update(nodes) {
    for (const [name, node] of Object.entries(nodes)) this.updates.set(name, node);
    return this;
  }

  /** The Node under another id; a copy of it where its id is taken: an input, a state, an output. */
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
   * Add a node by the name of its op; every other method comes to this.
   *
   * operands: Nodes and numbers; undefined leaves an optional one out, which only the last may be
   * attrs: attributes by name; null and undefined are left out
   * name: the id, or the list of ids of an op with several results     results: how many those are; then a list comes back
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

  /** What the methods of ops do: options are name, results, the inputs that are optional, and attributes. */
  call(op, operands, required, options = {}, {optional = [], results} = {}) {
    if (!isPlainObject(options)) {
      throw new TypeError(`${op}: options go into one object, as in {name: "y"}, and not ${describe(options)}`);
    }
    operands.forEach((operand) => this.checkOperand(op, operand)); // of those that must be given, none may be left out
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
   * The gradient of y with respect to each of xs: a list of Nodes.
   *
   * y: floats, one element; of any shape if `cotangent`, dL/dy in the shape of y, is given
   * xs: inputs, states or other Nodes of floats; zeros come for one that y does not depend on
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
   * A loop on the server: [carries, outputs], two lists of Nodes.
   *
   *     const [[total], [sums]] = g.scan((h, x) => [[h.add(x)], [h.add(x)]], [0], {xs: [xs]});
   *
   * step: from Nodes of the body, step(...carries, ...slices, ...args), to [next carries, outputs], two lists. It is called once, and sees
   *     these Nodes alone: what else it needs goes through args
   * init: what each carry starts as; the next carry has its dtype and shape
   * xs: Nodes [length, ...] that are gone through by their first axis     args: Nodes that are the same in each step
   * length: the number of steps, where there are no xs     reverse: from the last slice to the first
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
   * then(...xs) where p, of one element, holds, else otherwise(...xs); each gives a list of Nodes of its body.
   *
   * Both are computed and one is taken; gradients flow through that one.
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

  /** What the graph is on the wire: nodes, outputs and updates. */
  document() {
    const document = {nodes: this.steps.map(describeStep), outputs: this.outputs.map(({id}) => id)};
    if (this.updates.size > 0) document.updates = idsOf(this.updates);
    return document;
  }

  /** For Client.run: the document, and what is declared of the inputs. */
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
 * State, and the graphs that work on it: what `client.programs.put` sends.
 *
 *     const p = new Program({w: [0], b: {op: "zeros", attrs: {shape: [1]}}});
 *     const g = p.entry("main");
 *     const w = g.state("w");
 *
 * states: the first values by name: numbers, typed arrays, Tensors; {dtype, shape}, which is zeros; {op, attrs}, any creation or random op; {tensor}
 * batching: how runs that several clients ask for at once are joined: {max_rows, delay_us, preferred_rows, max_waiting}, or false for not at all
 */
export class Program {
  constructor(states = {}, {batching} = {}) {
    this.states = new Map(Object.entries(states));
    this.entries = new Map();
    this.batching = batching;
  }

  /** Declare a state by its first value. */
  state(name, value) {
    this.states.set(name, value);
    return this;
  }

  /** A new graph over the states, which runs and jobs call by this name. */
  entry(name = "main") {
    if (this.entries.has(name)) throw new RangeError(`the entry "${name}" is there twice`);
    this.entries.set(name, new Graph(this));
    return this.entries.get(name);
  }

  /** The document of the program, of whose state the values may be typed arrays and Tensors. */
  document() {
    const dims = Object.assign({}, ...[...this.entries.values()].map((graph) => graph.dims));
    const document = Object.keys(dims).length > 0 ? {dims} : {};
    if (this.batching !== undefined) document.batching = this.batching;
    if (this.states.size > 0) document.state = Object.fromEntries(this.states);
    if (this.entries.size === 1 && this.entries.has("main")) return {...document, ...this.entries.get("main").entry()};
    return {...document, entries: Object.fromEntries([...this.entries].map(([name, graph]) => [name, graph.entry()]))};
  }
}

/** {body, lists}: the graph that a function makes of so many Nodes, as an attribute, and the lists of results that the function gave. */
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

/** A list without the undefined ones at its end. */
function dropLast(operands) {
  const last = operands.findLastIndex((operand) => operand !== undefined && operand !== null);
  return operands.slice(0, last + 1);
}

/** The attributes that are given, but for those that the server takes anyway. */
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
