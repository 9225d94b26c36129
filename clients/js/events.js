// SPDX-License-Identifier: MIT
// Server-sent events (WHATWG HTML, 9.2) of the body of an answer.

/**
 * Yields the events of a stream of bytes: {name, id, data}; data is text. Comments are skipped, and so is an incomplete last event.
 * A caller that leaves the loop cancels the stream.
 */
export async function* readEvents(body) {
  let event = emptyEvent();
  for await (const line of readLines(body)) {
    if (line === "") {
      if (event.lines.length > 0) yield {name: event.name, id: event.id, data: event.lines.join("\n")};
      event = emptyEvent();
    } else {
      addField(event, line);
    }
  }
}

function emptyEvent() {
  return {name: "", id: "", lines: []};
}

function addField(event, line) {
  const colon = line.indexOf(":");
  const field = colon < 0 ? line : line.slice(0, colon);
  const value = colon < 0 ? "" : line.slice(colon + 1).replace(/^ /, "");
  if (field === "event") event.name = value;
  else if (field === "id") event.id = value;
  else if (field === "data") event.lines.push(value);
}

async function* readLines(body) {
  const reader = body.getReader();
  const decoder = new TextDecoder();
  let rest = "";
  try {
    for (;;) {
      const {done, value} = await reader.read();
      if (done) return;
      const lines = (rest + decoder.decode(value, {stream: true})).split("\n");
      rest = lines.pop();
      for (const line of lines) yield line.endsWith("\r") ? line.slice(0, -1) : line;
    }
  } finally {
    reader.cancel().catch(() => {}); // a stream that broke has nothing to cancel
  }
}
