// SPDX-License-Identifier: MIT
// The types of the JavaScript client. What the calls do is told in the modules; members of documents are those of docs/api.md.
import {GraphOps, NodeOps} from "./ops.js";

// ---- values

export type DType =
  | "bool"
  | "int8"
  | "int16"
  | "int32"
  | "int64"
  | "uint8"
  | "uint16"
  | "uint32"
  | "uint64"
  | "float16"
  | "bfloat16"
  | "float32"
  | "float64"
  | "float8_e4m3"
  | "float8_e5m2";
export type TypedArray =
  | Int8Array
  | Int16Array
  | Int32Array
  | BigInt64Array
  | Uint8Array
  | Uint8ClampedArray
  | Uint16Array
  | Uint32Array
  | BigUint64Array
  | Float32Array
  | Float64Array;
/** An element: "NaN", "Infinity" and "-Infinity" are numbers as the wire writes them. */
export type Element = number | bigint | boolean | "NaN" | "Infinity" | "-Infinity";
export type Nested<T> = T | readonly Nested<T>[];
/** A document, or a part of one. */
export type Json = any;
export type Document = Record<string, Json>;

/** A tensor in this process, in row-major order. Of small floats `data` has the codes; `values()` and `toArray()` give numbers. */
export class Tensor {
  constructor(dtype: DType, shape: readonly number[], data: TypedArray);
  static from(
    values: Nested<Element> | TypedArray | Tensor,
    options?: {dtype?: DType; shape?: readonly number[]},
  ): Tensor;
  static fromBytes(dtype: DType, shape: readonly number[], bytes: Uint8Array): Tensor;
  readonly dtype: DType;
  readonly shape: number[];
  readonly data: TypedArray;
  readonly size: number;
  readonly bytes: Uint8Array;
  values(): TypedArray | boolean[];
  toArray(): Nested<any>;
  item(): number | bigint | boolean;
  toJSON(): {dtype: DType; shape: number[]; data: Element[]};
}

/** What an input or a state may be: numbers, tensors, or a document such as {tensor: "NAME"}, {dtype, shape} or {op, attrs}. */
export type Value = Nested<Element> | TypedArray | Tensor | Document;
export type Values = Record<string, Value>;
export type Tensors = Record<string, Tensor>;

export function readSafetensors(bytes: Uint8Array): {tensors: Tensors; metadata: Record<string, string>};
export function writeSafetensors(tensors: Tensors, metadata?: Record<string, string>): Uint8Array;

// ---- errors

/** A refusal or a failure that the server reports. */
export class BeamlineError extends Error {
  readonly status: number;
  readonly title?: string;
  readonly detail: string;
  readonly node?: string;
  readonly step?: number;
  readonly type?: string;
  readonly code?: string | number;
  readonly retryAfter?: number;
}

/** A server that cannot be reached, or a connection that broke before the answer was whole. */
export class ConnectionError extends Error {}

/** A job that was waited for has failed, or was cancelled. */
export class JobFailed extends Error {
  readonly job: Document;
}

// ---- graphs

export type Integer = number | bigint;
/** A whole number, the name of a dimension, or a formula of names such as "2 * n + 1". */
export type Size = number | string;
export type Operand = Node | number | bigint | boolean;
export type Body = Document;
export interface NameOption {
  /** The id of the node; by default one is made up. */
  name?: string;
}
export interface NamesOption {
  /** The ids of the results; or one, of which the others are made. */
  name?: string | readonly string[];
}

/** A handle of an input, a state or a result of a Graph. */
export class Node extends NodeOps {
  readonly graph: Graph;
  readonly id: string;
  /** x.at(0, [1, 3], null) is Python's x[0, 1:3, :]. */
  at(...places: (number | readonly (number | null | undefined)[] | null)[]): Node;
}

/** A graph under construction, to run once or as an entry of a Program. */
export class Graph extends GraphOps {
  constructor();
  dim(name: string, least: number, most: number, step?: number): string;
  input(name: string, shape?: readonly Size[], dtype?: DType): Node;
  state(name: string): Node;
  output(...outputs: (Node | Record<string, Node>)[]): this;
  update(nodes: Record<string, Node>): this;
  op(
    op: string,
    operands: readonly (Operand | null | undefined)[],
    attrs?: Document,
    options?: NamesOption & {results?: undefined},
  ): Node;
  op(
    op: string,
    operands: readonly (Operand | null | undefined)[],
    attrs: Document,
    options: NamesOption & {results: number},
  ): Node[];
  grad(y: Node, xs: readonly Node[], options?: NamesOption & {cotangent?: Node}): Node[];
  scan(
    step: (...nodes: Node[]) => readonly [Node[], Node[]],
    init: readonly Operand[],
    options?: NamesOption & {xs?: readonly Node[]; args?: readonly Operand[]; length?: Size; reverse?: boolean},
  ): [Node[], Node[]];
  cond(
    p: Operand,
    then: (...nodes: Node[]) => Node[],
    otherwise: (...nodes: Node[]) => Node[],
    xs?: readonly Operand[],
    options?: NamesOption,
  ): Node[];
  document(): Document;
}

/** State, and the graphs that work on it. */
export class Program {
  constructor(states?: Values, options?: {batching?: Document | false});
  state(name: string, value: Value): this;
  entry(name?: string): Graph;
  document(): Document;
}

// ---- the client

export interface CallOptions {
  signal?: AbortSignal;
}
export interface ClientOptions {
  url?: string;
  key?: string;
  fetch?: typeof globalThis.fetch;
  retries?: number;
  binary?: boolean;
}
export interface Result {
  outputs: Tensors;
  stats: Document;
  kept: Record<string, Document>;
  collected: Tensors;
  plan_detail?: Document;
}
/** Members of a request that are passed on as they are: device, seed, debug, timeout_ms, priority, sizes and others. */
export type RunOptions = CallOptions & {
  keep?: Record<string, Node | string>;
  dry_run?: false | undefined;
  [member: string]: Json;
};
export type DryRun = CallOptions & {dry_run: true; [member: string]: Json};

/** A server. */
export class Client {
  constructor(options?: ClientOptions);
  readonly tensors: HeldTensors;
  readonly programs: Programs;
  readonly jobs: Jobs;
  readonly models: Models;
  readonly blobs: Blobs;
  readonly keys: Keys;
  readonly shares: Shares;
  call(
    method: string,
    path: string,
    document?: Json,
    options?: CallOptions & {headers?: Record<string, string>; repeat?: boolean},
  ): Promise<Json>;
  run(graph: Graph | Document, inputs: Values | undefined, options: DryRun): Promise<Document>;
  run(graph: Graph | Document, inputs?: Values, options?: RunOptions): Promise<Result>;
  lease(ttl?: number, options?: CallOptions): Promise<Lease>;
  chat(request: Document, options?: CallOptions): AsyncGenerator<Document, void, void>;
  completions(request: Document, options?: CallOptions): AsyncGenerator<Document, void, void>;
  embeddings(request: Document, options?: CallOptions): Promise<Document>;
  me(options?: CallOptions): Promise<Document>;
  now(options?: CallOptions): Promise<Document>;
  nowHistory(seconds?: number, options?: CallOptions): Promise<Document>;
  devices(options?: CallOptions): Promise<Document[]>;
  kernels(options?: CallOptions): Promise<Document>;
  kernel(key: string, options?: CallOptions): Promise<Document>;
  trace(seconds?: number, options?: CallOptions): Promise<Document>;
  usage(options?: CallOptions & {days?: number}): Promise<Document[]>;
  top(options?: CallOptions): Promise<Document>;
  server(options?: CallOptions): Promise<Document>;
  ready(options?: CallOptions): Promise<boolean>;
}

/** A client with names of its own: what it keeps, and the programs that it puts, go when it ends. */
export class Lease extends Client {
  private constructor();
  renew(ttl?: number, options?: CallOptions): Promise<void>;
  end(options?: CallOptions): Promise<void>;
}

export interface HeldTensors {
  put(
    name: string,
    value: Value,
    options?: CallOptions & {dtype?: DType; shape?: readonly number[]; device?: string; durable?: boolean},
  ): Promise<void>;
  get(name: string, options?: CallOptions): Promise<Tensor>;
  list(options?: CallOptions): Promise<Document[]>;
  delete(names: string | readonly string[], options?: CallOptions): Promise<void>;
}

export interface Programs {
  list(options?: CallOptions): Promise<Document[]>;
  get(name: string, options?: CallOptions): Promise<Document>;
  put(
    name: string,
    program: Program | Document,
    options?: CallOptions & {ifAbsent?: boolean; durable?: boolean; [member: string]: Json},
  ): Promise<Document>;
  delete(name: string, options?: CallOptions): Promise<void>;
  run(name: string, inputs: Values | undefined, options: DryRun): Promise<Document>;
  run(
    name: string,
    inputs?: Values,
    options?: RunOptions & {entry?: string; steps?: number; seq?: number},
  ): Promise<Result>;
  state(name: string, options?: CallOptions): Promise<Tensors>;
  setState(name: string, values: Values, options?: CallOptions): Promise<void>;
  promote(
    name: string,
    target: {model: string; version: number; entry?: string},
    options?: CallOptions,
  ): Promise<Document>;
  plan(name: string, options?: CallOptions & {entry?: string}): Promise<Document>;
}

export interface Report {
  step: number;
  time: number;
  rate?: number;
  metrics?: Record<string, number>;
  evaluation?: Record<string, number>;
}
export type JobEvent = {type: "report"; data: Report} | {type: "state"; data: Document};

export interface Jobs {
  list(options?: CallOptions): Promise<Document[]>;
  get(id: string, options?: CallOptions): Promise<Document>;
  submit(
    request: {program: string; steps: number; inputs?: Values; [member: string]: Json},
    options?: CallOptions,
  ): Promise<Document>;
  document(id: string, options?: CallOptions): Promise<Document>;
  events(id: string, options?: CallOptions & {after?: number}): AsyncGenerator<JobEvent, void, void>;
  reports(id: string, options?: CallOptions & {after?: number}): AsyncGenerator<Report, void, void>;
  history(
    id: string,
    options?: CallOptions & {from?: number; limit?: number; points?: number},
  ): Promise<{columns: string[]; rows: (number | null)[][]}>;
  wait(id: string, options?: CallOptions): Promise<Document>;
  cancel(id: string, options?: CallOptions): Promise<Document>;
  remove(id: string, options?: CallOptions): Promise<void>;
  checkpoint(id: string, step?: number | "last", options?: CallOptions): Promise<Tensors>;
}

export interface VersionOptions extends CallOptions {
  version?: number | string;
}
export interface InferOptions extends VersionOptions {
  outputs?: readonly string[];
  classes?: Record<string, number>;
  parameters?: Document;
}

export interface Models {
  index(options?: CallOptions & {ready?: boolean}): Promise<Document[]>;
  metadata(name: string, options?: VersionOptions): Promise<Document>;
  config(name: string, options?: VersionOptions): Promise<Document>;
  statistics(name?: string, options?: VersionOptions): Promise<Document[]>;
  infer(
    name: string,
    inputs: Record<string, Nested<Element> | Nested<string> | TypedArray | Tensor>,
    options?: InferOptions,
  ): Promise<{outputs: Record<string, any>; stats: Document}>;
  generate(name: string, document: Document, options?: VersionOptions): Promise<Document>;
  stream(name: string, document: Document, options?: VersionOptions): AsyncGenerator<Document, void, void>;
  load(
    name: string,
    options?: CallOptions & {config?: Document; files?: Record<string, TypedArray | ArrayBuffer | string | Document>},
  ): Promise<void>;
  unload(name: string, options?: CallOptions): Promise<void>;
}

export interface Blobs {
  list(options?: CallOptions): Promise<Document[]>;
  exists(digest: string, options?: CallOptions): Promise<boolean>;
  get(digest: string, options?: CallOptions): Promise<Uint8Array>;
  delete(digest: string, options?: CallOptions): Promise<void>;
  upload(
    data: Blob | TypedArray | ArrayBuffer | string,
    options?: CallOptions & {progress?: (done: number, total: number) => void},
  ): Promise<string>;
}

export interface Keys {
  list(options?: CallOptions): Promise<Document[]>;
  create(
    key: {name: string; scopes: readonly string[]; ttl?: number; quotas?: Document},
    options?: CallOptions,
  ): Promise<string>;
  change(
    name: string,
    changes: {scopes?: readonly string[]; ttl?: number | null; quotas?: Document},
    options?: CallOptions,
  ): Promise<Document>;
  rotate(name: string, options?: CallOptions): Promise<string>;
  revoke(name: string, options?: CallOptions & {purge?: boolean}): Promise<void>;
}

export type Shared = {tensor: string} | {program: string} | {model: string} | {job: string};
export interface Shares {
  list(options?: CallOptions): Promise<{given: Document[]; taken: Document[]}>;
  add(thing: Shared, to: string, options?: CallOptions): Promise<void>;
  remove(thing: Shared, to: string, options?: CallOptions): Promise<void>;
}
