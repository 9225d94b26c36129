// SPDX-License-Identifier: MIT
// A conversation with a language model. The page shows the answer as it arrives, and keeps the conversation only in this tab.
import {announce, button, field, h} from "./dom.js";
import {short} from "./format.js";
import {explain, session} from "./session.js";

const HISTORY = "beamline chat ";

function recall(name) {
  try {
    return JSON.parse(sessionStorage.getItem(HISTORY + name)) ?? [];
  } catch {
    return [];
  }
}

export function showChat(place, name, model, life) {
  const messages = recall(name);
  const log = h("div", {class: "chat", role: "log", "aria-label": "Conversation", tabindex: "0"});
  const entry = h("textarea", {rows: 3, required: true, "aria-label": "Message", placeholder: "Write a message. Enter sends, Shift+Enter begins a line."});
  const kind = h("select", {}, h("option", {value: "chat"}, "a conversation"), h("option", {value: "text"}, "text that goes on"));
  const most = h("input", {type: "number", min: 1, max: 100000, value: 256}), heat = h("input", {type: "number", min: 0, max: 2, step: 0.1, value: 0.7});
  const send = h("button", {type: "submit", class: "main"}, "Send"), status = h("span", {class: "quiet"});
  const stop = button("Stop", () => running?.abort(), {disabled: true});
  let running;
  const keep = () => sessionStorage.setItem(HISTORY + name, JSON.stringify(messages.slice(-100)));
  const show = (message) => {
    const text = h("div", {class: "said"}, message.content);
    log.append(h("div", {class: `message ${message.role}`}, h("div", {class: "quiet"}, message.role === "user" ? "you" : name), text));
    log.scrollTop = log.scrollHeight;
    return text;
  };
  const ask = async () => {
    const asked = {role: "user", content: entry.value}, answer = {role: "assistant", content: ""};
    entry.value = "";
    messages.push(asked);
    show(asked);
    const text = show(answer), began = performance.now();
    running = new AbortController();
    Object.assign(send, {disabled: true});
    stop.disabled = false;
    let tokens = 0, pending = "", frame;
    const write = () => {
      cancelAnimationFrame(frame);
      frame = undefined;
      text.append(pending);
      pending = "";
      log.scrollTop = log.scrollHeight;
    };
    // Draw once per frame, because a fast model writes many tokens in the time of one layout.
    const draw = () => {
      write();
      status.textContent = `${short(tokens / Math.max(0.001, (performance.now() - began) / 1000))} tokens/s`;
    };
    const options = {signal: AbortSignal.any([running.signal, life.signal])}, limits = {model: name, max_tokens: Number(most.value), temperature: Number(heat.value)};
    try {
      const chunks = kind.value === "chat" ? session.client.chat({...limits, messages}, options) : session.client.completions({...limits, prompt: asked.content}, options);
      for await (const chunk of chunks) {
        const piece = chunk.choices?.[0]?.delta?.content ?? chunk.choices?.[0]?.text ?? "";
        if (piece === "") continue;
        tokens++;
        answer.content += piece;
        pending += piece;
        frame ??= requestAnimationFrame(draw);
      }
      draw();
      announce(`The answer: ${answer.content.slice(0, 300)}`);
    } catch (error) {
      if (running.signal.aborted) status.textContent = "stopped";
      else if (error.status === 401) session.onsignout();
      else if (!life.signal.aborted) status.textContent = explain(error);
    }
    write();
    if (answer.content) messages.push(answer);
    keep();
    send.disabled = false;
    stop.disabled = true;
  };
  const form = h("form", {onsubmit: (event) => {
    event.preventDefault();
    if (!send.disabled && entry.value.trim()) ask();
  }}, entry, h("div", {class: "row"}, send, stop, button("Forget", () => {
    messages.length = 0;
    keep();
    log.replaceChildren();
  }), status), h("details", {}, h("summary", {}, "Options"), h("div", {class: "row"}, field("Write", kind), field("Tokens at most", most), field("Temperature", heat))));
  entry.onkeydown = (event) => {
    if (event.key !== "Enter" || event.shiftKey || event.isComposing) return;
    event.preventDefault();
    form.requestSubmit();
  };
  messages.forEach(show);
  place.append(h("h2", {}, "Try it"), log, form);
}
