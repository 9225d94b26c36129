// SPDX-License-Identifier: MIT
// The JavaScript client of a beamline server: one import for all of it.
export {Client, Lease} from "./client.js";
export {BeamlineError, ConnectionError} from "./errors.js";
export {Graph, Node, Program} from "./graph.js";
export {JobFailed} from "./jobs.js";
export {readSafetensors, writeSafetensors} from "./safetensors.js";
export {Tensor} from "./tensor.js";
