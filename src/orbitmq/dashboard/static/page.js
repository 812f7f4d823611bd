// Times of the reader's zone, tables that are read again, and the live tail of a topic's page: rows are made of text alone, so that no
// message becomes markup.
"use strict";
const REFRESH_MS = 10000;
const IDLE_MS = 30 * 60000;
const LIVE = "main .wide:not(:has(#tail-rows)), main .live, main p.problem, main .pages";
const main = document.getElementById("content");
const button = document.getElementById("refresh");
const told = document.getElementById("refresh-state");
let source = null;

function pad(number) {
  return String(number).padStart(2, "0");
}

function clock(ms) {
  const at = new Date(Number(ms));
  return pad(at.getHours()) + ":" + pad(at.getMinutes());
}

// Set what a <time> shows: the reader's own time, and UTC on hover.
function localise(time) {
  const at = new Date(time.dateTime);
  if (isNaN(at)) return;
  const day = [at.getFullYear(), pad(at.getMonth() + 1), pad(at.getDate())].join("-");
  time.title = time.dateTime.slice(0, 19).replace("T", " ") + " UTC";
  time.textContent = day + " " + [at.getHours(), at.getMinutes(), at.getSeconds()].map(pad).join(":");
}

function localiseAll(part) {
  part.querySelectorAll("time[datetime]").forEach(localise);
  part.querySelectorAll(".zone").forEach((zone) => { zone.textContent = "(local)"; });
  part.querySelectorAll(".chart text[data-ms]").forEach((text) => { text.textContent = clock(text.dataset.ms); });
}
localiseAll(main);

// Charts: say the value under the pointer, or the one that the arrow keys have reached.
function choose(chart, point) {
  chart.querySelectorAll(".chosen").forEach((old) => old.classList.remove("chosen"));
  point.classList.add("chosen");
  chart.parentElement.querySelector("output").textContent = point.dataset.value + ", " + clock(point.dataset.ms);
}
main.addEventListener("pointermove", (event) => {
  const chart = event.target.closest(".chart");
  if (!chart) return;
  const x = new DOMPoint(event.clientX, event.clientY).matrixTransform(chart.getScreenCTM().inverse()).x;
  const away = (point) => Math.abs(point.cx.baseVal.value - x);
  choose(chart, [...chart.querySelectorAll("circle")].reduce((best, point) => (away(point) < away(best) ? point : best)));
});
main.addEventListener("keydown", (event) => {
  const chart = event.target.closest(".chart");
  const steps = { ArrowLeft: -1, ArrowRight: 1, Home: -Infinity, End: Infinity };
  if (!chart || !(event.key in steps)) return;
  event.preventDefault();
  const points = [...chart.querySelectorAll("circle")];
  const now = points.findIndex((point) => point.classList.contains("chosen"));
  const next = (now < 0 ? points.length : now) + steps[event.key];
  choose(chart, points[Math.max(0, Math.min(points.length - 1, next))]);
});

// Hide the rows that do not hold what is typed.
function filterRows(field) {
  const wanted = field.value.toLowerCase();
  for (const row of document.getElementById(field.dataset.rows).rows) row.hidden = !row.textContent.toLowerCase().includes(wanted);
}
const filters = main.querySelectorAll("input[data-rows]");
filters.forEach((field) => {
  field.closest("label").hidden = false;
  filterRows(field); // a browser that goes back has kept what was typed
});

// Auto-refresh: tables and what is said over them, but not one in which something is typed or has the focus.
const typed = new Set();
let acted = Date.now();
let timer = null;
main.addEventListener("input", (event) => {
  if (event.target.dataset.rows) filterRows(event.target);
  else typed.add(event.target.closest(LIVE) || main);
});
for (const name of ["pointerdown", "keydown"]) document.addEventListener(name, () => { acted = Date.now(); });

async function refresh() {
  const answer = await fetch(location.href, { headers: { accept: "text/html" } });
  if (!answer.ok || answer.redirected) throw new Error("status " + answer.status);
  const found = new DOMParser().parseFromString(await answer.text(), "text/html");
  const now = [...document.querySelectorAll(LIVE)];
  const next = [...found.querySelectorAll(LIVE)];
  if (!timer) return; // paused meanwhile
  if (now.length !== next.length) {
    if (!source && !typed.size && !main.querySelector("details[open]")) location.reload();
    return;
  }
  now.forEach((part, index) => {
    if (typed.has(part) || part.contains(document.activeElement)) return;
    part.replaceWith(document.adoptNode(next[index]));
    localiseAll(next[index]);
  });
  filters.forEach(filterRows);
}

function pauseRefresh(text) {
  clearTimeout(timer);
  timer = null;
  button.textContent = "Refresh again";
  told.textContent = text;
}

function startRefresh() {
  timer = setTimeout(async () => {
    try {
      if (Date.now() - acted > IDLE_MS) return pauseRefresh("paused: nothing was done for half an hour");
      if (!document.hidden) await refresh();
      if (timer) startRefresh();
    } catch (error) {
      pauseRefresh("paused: the page was not answered");
    }
  }, REFRESH_MS);
  button.textContent = "Pause refresh";
  told.textContent = "";
}

if (button) {
  button.hidden = false;
  button.addEventListener("click", () => {
    const isPaused = !timer;
    localStorage.setItem("refresh", isPaused ? "on" : "paused");
    if (isPaused) startRefresh();
    else pauseRefresh("");
  });
  if (localStorage.getItem("refresh") === "paused") pauseRefresh("");
  else startRefresh();
}

// The live tail.
const ROWS_MAX = 200;
const form = document.getElementById("tail");
const stop = document.getElementById("tail-stop");
const state = document.getElementById("tail-state");
const rows = document.getElementById("tail-rows");

function cell(row, text, name) {
  const made = row.insertCell();
  made.textContent = text;
  made.dataset.label = rows.parentElement.tHead.rows[0].cells[made.cellIndex].firstChild.textContent.trim();
  if (name) made.className = name;
  return made;
}

function show(message) {
  const row = rows.insertRow(0);
  const time = document.createElement("time");
  time.dateTime = new Date(message.stored_at_ms).toISOString();
  localise(time);
  cell(row, "").append(time);
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

if (form) {
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
    source.onmessage = (event) => {
      const found = JSON.parse(event.data);
      found.messages.forEach(show);
      seen += found.messages.length;
      leftOut += found.left_out;
      behind = behind || found.is_behind;
      const more = (leftOut ? ", " + leftOut + " left out: more came than can be read" : "") + (behind ? ", others skipped" : "");
      state.textContent = [seen ? seen + " shown" + more : "waiting for messages", ...found.missing].join("; ");
    };
    source.addEventListener("problem", (event) => pause(JSON.parse(event.data)));
    source.onerror = () => pause("the connection ended");
  });
  stop.addEventListener("click", () => pause(state.textContent + ", paused"));
  // A link to the running tail: /topics/orders#tail
  if (location.hash === "#tail") form.requestSubmit();
}
