// SPDX-License-Identifier: MIT
// Page "API": every address of the server, with a curl command.
import {announce, button, h, heading, morph} from "./dom.js";
import {hasKey, session} from "./session.js";

export async function showApi(root, _, life) {
  const list = h("div", {class: "stack"});
  const filter = h("input", {type: "search", placeholder: "Filter", "aria-label": "Filter addresses", oninput: () => draw()});
  root.append(heading("API", filter), h("p", {class: "lead"}, "All that this page does, it does by these addresses. ", h("a", {href: "/openapi.json"}, "openapi.json"), " describes them for tools."), list);
  const description = await life.attempt((options) => session.client.call("GET", "/openapi.json", undefined, options));
  if (!description) return;
  const groups = groupOperations(description);
  const draw = () => {
    const word = filter.value.toLowerCase();
    morph(list, groups.map(([group, operations]) => [group, operations.filter((each) => `${each.method} ${each.path} ${each.summary}`.toLowerCase().includes(word))])
      .filter(([, operations]) => operations.length > 0).map(([group, operations]) => h("section", {class: "panel", key: group}, h("h2", {}, group[0].toUpperCase() + group.slice(1)), operations.map(drawOperation))));
  };
  draw();
}

/**
 * Group the operations of the document: [[group, [{method, path, summary, ...}]]]. A group is a tag, or the first part of the
 * address.
 */
function groupOperations({paths}) {
  const groups = new Map();
  for (const [path, item] of Object.entries(paths)) {
    for (const method of ["get", "put", "post", "delete"]) {
      const operation = item[method];
      if (!operation) continue;
      const group = operation.tags?.[0] ?? path.split("/").slice(1, path.startsWith("/api/") ? 4 : 2).join("/");
      const kinds = Object.keys(operation.requestBody?.content ?? {});
      groups.set(group, [...(groups.get(group) ?? []), {method: method.toUpperCase(), path, summary: operation.summary ?? "", kinds}]);
    }
  }
  return [...groups];
}

function drawOperation({method, path, summary, kinds}) {
  const line = curl(method, path, kinds[0]);
  return h("details", {key: `${method} ${path}`, class: "operation"},
    h("summary", {}, h("span", {class: "method"}, method), h("code", {}, path), h("span", {class: "quiet"}, summary)),
    h("div", {class: "row"}, h("pre", {tabindex: "0", "aria-label": `curl for ${method} ${path}`}, line),
      button("Copy", async () => {
        await navigator.clipboard?.writeText(line);
        announce("Copied");
      })));
}

function curl(method, path, kind) {
  const words = ["curl -s"];
  if (method !== "GET") words.push(`-X ${method}`);
  words.push(`'${location.origin}${path}'`);
  if (hasKey()) words.push("-H \"Authorization: Bearer $BEAMLINE_KEY\"");
  if (kind) words.push(`-H 'Content-Type: ${kind}' --data-binary @${kind.includes("json") ? "request.json" : "FILE"}`);
  return words.join(" ");
}
