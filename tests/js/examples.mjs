// SPDX-License-Identifier: MIT
// Builds examples of the table of ops by the client's own methods and runs them, in Node or in a browser.
import {Client, Graph} from "../../clients/js/beamline.js";
import {parse, stringify} from "../../clients/js/json.js";

const OPS = new Map();

function camel(name) {
  return name.replace(/_(\w)/g, (_, letter) => letter.toUpperCase());
}

/** The values of an op's inputs by name, of a list of operands: an input that is a list takes what the ones behind it leave. */
function byName(op, operands) {
  const rest = [...operands];
  return Object.fromEntries(
    op.inputs.map((input, i) => [
      input.name,
      input.many ? rest.splice(0, rest.length - (op.inputs.length - 1 - i)) : rest.shift(),
    ]),
  );
}

/** A node, by the method of its op: of the first operand where that is a Node, else of the graph. */
function build(graph, {op: name, in: operands = [], attrs = {}, results}, nodes) {
  const values = operands.map((operand) => (typeof operand === "string" ? nodes.get(operand) : operand));
  if (name === "grad") return buildGrad(graph, values, attrs);
  if (name === "scan") return buildScan(graph, values, attrs);
  if (name === "cond") return graph.cond(values[0], replay(attrs.then), replay(attrs.otherwise), values.slice(1));
  const op = OPS.get(name);
  const given = {...byName(op, values), ...attrs};
  const isRequired = (param) => !("default" in param);
  const params = [...op.inputs, ...op.attrs];
  const required = params.filter(isRequired).map((param) => given[param.name]);
  const options = Object.fromEntries(
    params
      .filter((param) => !isRequired(param) && given[param.name] !== undefined)
      .map((param) => [param.name, given[param.name]]),
  );
  if (["split", "chunk"].includes(name)) options.results = results;
  const first = values[0];
  return first?.graph && camel(name) in first
    ? first[camel(name)](...required.slice(1), options)
    : graph[camel(name)](...required, options);
}

function buildGrad(graph, [y, ...xs], {cotangent}) {
  return cotangent ? graph.grad(y, xs.slice(0, -1), {cotangent: xs.at(-1)}) : graph.grad(y, xs);
}

function buildScan(graph, values, {body, carries = 1, sequences = 0, length, reverse}) {
  const step = (...params) => {
    const results = replay(body)(...params);
    return [results.slice(0, carries), results.slice(carries)];
  };
  const options = {
    xs: values.slice(carries, carries + sequences),
    args: values.slice(carries + sequences),
    length,
    reverse,
  };
  return graph.scan(step, values.slice(0, carries), options).flat();
}

/** A function that makes the nodes of a body's document of what it is handed. */
function replay(body) {
  return (...params) => {
    const nodes = new Map(body.inputs.map((name, i) => [name, params[i]]));
    for (const node of body.nodes) {
      const made = [build(params[0].graph, node, nodes)].flat();
      [node.id].flat().forEach((id, i) => nodes.set(id, made[i]));
    }
    return body.outputs.map((output) => nodes.get(output));
  };
}

/** The graph of an example, whose inputs have the dtypes that their values say. */
function buildExample({inputs, ...node}) {
  const graph = new Graph();
  const nodes = new Map(Object.keys(inputs).map((name) => [name, graph.input(name)]));
  return graph.output(...[build(graph, node, nodes)].flat());
}

/** As the request of a run, or, where the op remembers something, of a program whose state are the inputs. */
async function run(client, example, graph) {
  if (!example.remembers) return client.run(graph, example.inputs);
  const {document} = graph.request();
  await client.programs.put("example", {...document, state: example.inputs});
  return client.programs.run("example");
}

function describeTensor({dtype, shape, bytes}) {
  return {dtype, shape, base64: btoa(String.fromCharCode(...bytes))};
}

async function answer(client, example) {
  const graph = buildExample(example);
  const document = stringify({...graph.request().document, inputs: example.inputs});
  try {
    const {outputs, stats} = await run(client, example, graph);
    return {document, results: graph.outputs.map(({id}) => describeTensor(outputs[id])), plan: stats.plan};
  } catch ({status, detail, stack}) {
    return {document, error: {status, detail: detail ?? stack}};
  }
}

/**
 * What comes of examples: {document, results, plan} of each, of which document is the text that goes over the wire, and results are
 * {dtype, shape, base64}; or {document, error: {status, detail}}.
 *
 * table: the text of proto/ops.json     examples: the text of a list of {op, in, attrs, inputs}, as the table has examples
 */
export async function answerAll(table, examples) {
  for (const op of parse(table).ops) OPS.set(op.name, op);
  const client = new Client();
  const answers = [];
  for (const example of parse(examples)) answers.push(await answer(client, example));
  return answers;
}
