// SPDX-License-Identifier: MIT
// Answers the examples of standard input, a list, in Node: prints a list.
import {readFileSync} from "node:fs";
import {answerAll} from "./examples.mjs";

const table = readFileSync(new URL("../../proto/ops.json", import.meta.url), "utf8");
console.log(JSON.stringify(await answerAll(table, readFileSync(0, "utf8"))));
