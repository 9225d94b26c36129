// SPDX-License-Identifier: MIT
// Compares the classes of the modules with their declarations: prints members that only one of the two has.
// Arguments: the folder of the npm packages, the folder of the client.
import {createRequire} from "node:module";
import {pathToFileURL} from "node:url";

const [packages, client] = process.argv.slice(2);
const ts = createRequire(`${packages}/`)("typescript");
const program = ts.createProgram([`${client}/beamline.d.ts`], {
  target: ts.ScriptTarget.ES2022,
  lib: ["lib.es2022.d.ts", "lib.dom.d.ts"],
});
const checker = program.getTypeChecker();
const declared = new Map(
  checker
    .getExportsOfModule(checker.getSymbolAtLocation(program.getSourceFile(`${client}/beamline.d.ts`)))
    .map((symbol) => [symbol.name, symbol]),
);
const modules = await import(pathToFileURL(`${client}/beamline.js`));

// Members that the parts of a client use among themselves.
const INNER = {
  Client: [
    "connection",
    "binary",
    "leaseId",
    "send",
    "fetchTensors",
    "makeTensors",
    "withLease",
    "readResult",
    "chunks",
  ],
  Graph: [
    "program",
    "inputs",
    "dims",
    "names",
    "steps",
    "outputs",
    "updates",
    "isTaken",
    "takeName",
    "freshName",
    "rename",
    "call",
    "makeIds",
    "checkOperand",
    "request",
    "entry",
  ],
  Program: ["states", "entries", "batching"],
  HeldTensors: ["client", "path"],
  Programs: ["client"],
  Jobs: ["client", "connect", "rest"],
  Models: ["client", "inputs", "path", "post", "declared", "encodeInput", "readInference"],
  Blobs: ["client", "sendAll", "received", "sendPiece", "send"],
  Keys: ["client"],
  Shares: ["client"],
};
const FIELDS = {
  Tensor: ["dtype", "shape", "data"],
  Node: ["graph", "id"],
  Client: ["tensors", "programs", "jobs", "models", "blobs", "keys", "shares"],
};

function membersOf(prototype) {
  const names = [];
  for (let at = prototype; at !== Object.prototype; at = Object.getPrototypeOf(at))
    names.push(...Object.getOwnPropertyNames(at));
  return new Set(names.filter((name) => name !== "constructor"));
}

function compare(name, prototype, fields = FIELDS[name] ?? []) {
  const inner = new Set(INNER[name] ?? []);
  const there = new Set([...membersOf(prototype), ...fields].filter((member) => !inner.has(member)));
  const told = new Set(
    checker
      .getDeclaredTypeOfSymbol(declared.get(name))
      .getProperties()
      .map((property) => property.name),
  );
  for (const member of there) if (!told.has(member)) console.log(`${name}.${member} is not declared`);
  for (const member of told) if (!there.has(member)) console.log(`${name}.${member} is declared, but not there`);
}

for (const [name, value] of Object.entries(modules)) {
  if (!declared.has(name)) console.log(`${name} is not declared`);
  else if (["Tensor", "Node", "Graph", "Program", "Client"].includes(name)) compare(name, value.prototype);
}
const parts = new modules.Client();
for (const [part, name] of Object.entries({
  tensors: "HeldTensors",
  programs: "Programs",
  jobs: "Jobs",
  models: "Models",
  blobs: "Blobs",
  keys: "Keys",
  shares: "Shares",
})) {
  compare(name, Object.getPrototypeOf(parts[part]));
}
