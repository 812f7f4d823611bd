// The live tail of a topic's page: rows are made of text alone, so that no message becomes markup.
"use strict";
const ROWS_MAX = 200;
const form = document.getElementById("tail");
const stop = document.getElementById("tail-stop");
const state = document.getElementById("tail-state");
const rows = document.getElementById("tail-rows");
let source = null;

function cell(row, text, name) {
  const made = row.insertCell();
  made.textContent = text;
  if (name) made.className = name;
  return made;
}

function show(message) {
  const row = rows.insertRow(0);
  cell(row, new Date(message.stored_at_ms).toISOString().slice(0, 19).replace("T", " "));
  cell(row, message.broker);
  cell(row, message.queue_id, "number");
  cell(row, message.queue_offset, "number");
  cell(row, message.tag || "");
  cell(row, message.keys.join(" "));
  const body = cell(row, message.message_id ? "" : message.body, "body");
  if (message.message_id) {
    const link = document.createElement("a");
    link.href = form.dataset.messages + "/" + encodeURIComponent(message.message_id);
    link.textContent = message.body || "(empty)";
    body.append(link);
  }
  while (rows.rows.length > ROWS_MAX) rows.deleteRow(-1);
}

function pause(text) {
  if (source) source.close();
  source = null;
  stop.disabled = true;
  state.textContent = text;
}

form.addEventListener("submit", (event) => {
  event.preventDefault();
  pause("");
  let seen = 0;
  let leftOut = 0;
  let behind = false;
  const query = new URLSearchParams({ tag: form.elements.tag.value, sql: form.elements.sql.value });
  source = new EventSource(form.dataset.url + "?" + query);
  stop.disabled = false;
  state.textContent = "waiting for messages";
  source.onmessage = (told) => {
    const found = JSON.parse(told.data);
    found.messages.forEach(show);
    seen += found.messages.length;
    leftOut += found.left_out;
    behind = behind || found.is_behind;
    const more = (leftOut ? ", " + leftOut + " left out: more came than can be read" : "") + (behind ? ", others skipped" : "");
    state.textContent = [seen ? seen + " shown" + more : "waiting for messages", ...found.missing].join("; ");
  };
  source.addEventListener("problem", (told) => pause(JSON.parse(told.data)));
  source.onerror = () => pause("the connection ended");
});
stop.addEventListener("click", () => pause(state.textContent + ", paused"));
// A link to the running tail: /topics/orders#tail
if (location.hash === "#tail") form.requestSubmit();
