// The live page: one feed in, leaderboards out. All text from outside goes in by textContent, never as HTML.

const $ = (selector, within = document) => within.querySelector(selector);
const SHOWN = 10;
const SPARK = 120;
const calm = matchMedia("(prefers-reduced-motion: reduce)");

// ---- Words and figures.

const few = new Intl.NumberFormat("en", { notation: "compact", maximumSignificantDigits: 3 });
const three = new Intl.NumberFormat("en", { notation: "compact", minimumSignificantDigits: 3, maximumSignificantDigits: 3 });
const cents = new Intl.NumberFormat("en", { minimumFractionDigits: 2, maximumFractionDigits: 2 });
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

function score(value) {
  const number = Number(value), size = Math.abs(number);
  if (value === null || Number.isNaN(number)) return "–";
  if (size === Infinity) return number > 0 ? "∞" : "−∞";
  if (size < 10000 && Number.isInteger(number)) return whole.format(number);
  if (size >= 1e15 || (number !== 0 && size < 0.01)) return number.toExponential(2).replace("e+", "e");
  return size >= 10000 ? three.format(number) : cents.format(number);
}

function span(seconds) {
  const size = Math.abs(seconds);
  if (size < 10 && !Number.isInteger(seconds)) return `${seconds.toFixed(1)} s`;
  if (size < 120) return `${Math.round(seconds)} s`;
  if (size < 7200) return `${Math.round(seconds / 60)} min`;
  return size < 172800 ? `${Math.round(seconds / 3600)} h` : `${Math.round(seconds / 86400)} d`;
}

const isTime = (moment) => typeof moment === "string" && moment.includes("T");
const shortTime = (moment) =>
  isTime(moment) ? moment.slice(11, 19) : moment === null || moment === undefined ? "" : whole.format(moment);

function say(text) { $("#said").textContent = text; }

// ---- A line of the last values.

function spark(svg, values) {
  svg.replaceChildren();
  const known = values.filter((value) => value !== null);
  if (known.length < 2) return;
  const low = Math.min(...known), high = Math.max(...known), flat = high - low || 1;
  svg.setAttribute("viewBox", "0 0 100 30");
  svg.setAttribute("preserveAspectRatio", "none");
  const at = (value, place) => [(100 * place) / (values.length - 1), 27 - (24 * (value - low)) / flat];
  let line = "", area = "", open = null, last = null;
  const close = () => { if (open !== null) area += `L${last[0]} 30L${open} 30Z`; open = null; };
  values.forEach((value, place) => {
    if (value === null) { close(); return; }
    const [x, y] = at(value, place);
    line += `${open === null ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`;
    area += `${open === null ? "M" : "L"}${x.toFixed(2)} ${y.toFixed(2)}`;
    if (open === null) open = x;
    last = [x, y];
  });
  close();
  for (const [kind, d] of [["area", area], ["line", line]]) {
    const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
    path.setAttribute("class", kind);
    path.setAttribute("d", d);
    svg.append(path);
  }
}

const finite = (value) => (value === null || !Number.isFinite(Number(value)) ? null : Number(value));

const windowInWords = (table) =>
  table.cumulative ? `${table.cumulative}, growing by ${table.step}`
    : table.all_time ? `all time, every ${table.every}`
      : `each ${table.calendar} of ${table.zone}`;

// ---- One leaderboard.

class Board {
  constructor(entry) {
    this.node = $("#board").content.firstElementChild.cloneNode(true);
    this.rows = new Map();
    this.thresholds = [];
    this.answer = null;
    this.all = false;
    this.describe(entry);
    $("[data-do=pause]", this.node).addEventListener("click", () => pause(this.entry.name, this.entry.state === "paused"));
    $("[data-do=remove]", this.node).addEventListener("click", () => remove(this.entry.name));
    $(".more", this.node).addEventListener("click", () => { this.all = !this.all; if (this.answer) this.draw(this.answer); });
  }

  describe(entry) {
    this.entry = entry;
    const { name, query, state } = entry;
    $("h2", this.node).textContent = name;
    $("h2", this.node).title = name;
    $(".rows", this.node).setAttribute("aria-label", name);
    const window_ = query.window ? windowInWords(query.window)
      : query.slide === query.size ? `each ${query.size}` : `${query.size}, every ${query.slide}`;
    const best = query.k === "all" ? "all that pass" : `${query.order === "asc" ? "least" : "best"} ${whole.format(query.k)}`;
    $(".what", this.node).textContent = `${best}${query.partition_by ? ` of each ${query.partition_by}` : ""} · ${window_}`;
    $(".how", this.node).textContent = query.score + (query.where ? ` where ${query.where}` : "");
    $(".how", this.node).title = $(".how", this.node).textContent;
    this.node.toggleAttribute("data-empty", !this.answer);
    this.node.dataset.state = state;
    const paused = state === "paused";
    const button = $("[data-do=pause]", this.node);
    button.textContent = paused ? "▶" : "❚❚";
    button.title = paused ? "Resume" : "Pause";
    button.setAttribute("aria-label", `${button.title} ${name}`);
    button.hidden = state === "suspended";
    const removal = $("[data-do=remove]", this.node);
    removal.title = "Remove";
    removal.setAttribute("aria-label", `Remove ${name}`);
    this.state();
  }

  state() {
    const chip = $(".chip", this.node), note = $(".note", this.node), { state, pending, error } = this.entry;
    const answer = this.answer;
    let kind = "calm", text = "waiting for a window";
    if (pending) text = `${pending} soon`;
    else if (state === "suspended") [kind, text] = ["bad", "suspended"];
    else if (state !== "active") text = state;
    else if (answer && answer.provisional) text = "window still open";
    else if (answer && answer.exact) [kind, text] = ["good", "exact"];
    else if (answer) [kind, text] = ["warn", answer.spent ? `${answer.spent.stale} stale` : answer.why || "not exact"];
    chip.dataset.kind = kind;
    chip.textContent = text;
    chip.title = (state === "active" && answer?.why) || "";
    note.textContent = error || (answer ? (answer.rows.length ? "" : "No event in this window.") : "The first window has not closed yet.");
  }

  take(answer) {
    this.thresholds.push(finite(answer.threshold));
    if (this.thresholds.length > SPARK) this.thresholds.shift();
    this.draw(answer);
  }

  draw(answer) {
    this.answer = answer;
    this.node.removeAttribute("data-empty");
    this.state();
    this.list(answer);
    const { query } = this.entry, svg = $(".spark", this.node), label = $(".threshold", this.node);
    spark(svg, this.thresholds);
    svg.setAttribute("aria-label", "The threshold over the last windows");
    label.hidden = Boolean(query.partition_by) || query.k === "all";
    svg.toggleAttribute("hidden", query.k === "all");
    $("b", label).textContent = score(answer.threshold);
    $("span", label).textContent = query.k === 1 ? "best" : `at rank ${whole.format(query.k)}`;
    $("time", this.node).title = answer.start === null ? `to ${answer.end}` : `${answer.start} to ${answer.end}`;
    this.age();
  }

  age() {
    if (!this.answer) return;
    const { end } = this.answer, since = newest && isTime(end) ? (Date.parse(newest.now) - Date.parse(end)) / 1000 : -1;
    const ago = newest?.health !== "live" && since >= 0 && since < 172800 ? `, ${span(Math.round(since))} ago` : "";
    $("time", this.node).textContent = `to ${shortTime(end)}${ago}`;
  }

  list(answer) {
    const body = $(".body", this.node), before = new Map(), rows = answer.rows;
    const limit = this.all ? rows.length : this.entry.query.partition_by ? SHOWN + 4 : SHOWN;
    const shown = rows.slice(0, limit);
    const moving = !calm.matches && !document.hidden;
    if (moving) for (const [key, node] of this.rows) before.set(key, node.offsetTop);
    const most = Math.max(...shown.map((row) => Math.abs(finite(row.score) ?? 0)), 0);
    const kept = new Map(), nodes = [], seen = new Map();
    let part;
    for (const row of shown) {
      if (row.partition !== undefined && row.partition !== part) {
        part = row.partition;
        nodes.push(partition(part));
      }
      const key = this.key(row, seen);
      const node = this.rows.get(key) || fresh();
      fill(node, row, most, answer.end);
      node.classList.toggle("fresh", moving && this.rows.size > 0 && !this.rows.has(key));
      kept.set(key, node);
      nodes.push(node);
    }
    body.replaceChildren(...nodes);
    this.rows = kept;
    if (moving) this.glide(before);
    const rest = rows.length - shown.length + (answer.more || 0);
    const more = $(".more", this.node);
    more.hidden = rest <= 0 && !this.all;
    more.textContent = this.all ? (answer.more ? `first ${rows.length} of ${rows.length + answer.more}; show fewer` : "show fewer") : `${whole.format(rest)} more`;
  }

  key(row, seen) {
    const { distinct, join } = this.entry.query, known = distinct || join ? [row.partition, row.id] : [row.partition, row.id, row.time, row.score];
    const base = JSON.stringify(known), count = (seen.get(base) || 0) + 1;
    seen.set(base, count);
    return `${base} ${count}`;
  }

  glide(before) {
    for (const [key, node] of this.rows) {
      const way = before.has(key) ? before.get(key) - node.offsetTop : 0;
      if (way) {
        node.animate([{ transform: `translateY(${way}px)`, zIndex: 1 }, { transform: "none", zIndex: 1 }], { duration: 550, easing: "cubic-bezier(.2,.8,.2,1)" });
      }
    }
  }
}

function cell(name, role = "cell") {
  const node = document.createElement("span");
  node.className = name;
  node.setAttribute("role", role);
  return node;
}

function fresh() {
  const row = document.createElement("div");
  row.className = "row";
  row.setAttribute("role", "row");
  const bar = document.createElement("span");
  bar.className = "bar";
  bar.setAttribute("aria-hidden", "true");
  bar.append(document.createElement("i"));
  row.append(cell("rank"), cell("move"), cell("id", "rowheader"), bar, cell("score"), cell("age"));
  return row;
}

function partition(value) {
  const node = document.createElement("div");
  node.className = "part";
  node.setAttribute("role", "row");
  const head = cell("", "rowheader");
  head.textContent = value;
  node.append(head);
  return node;
}

function fill(node, row, most, end) {
  node.dataset.rank = row.rank ?? "";
  $(".rank", node).textContent = row.rank ?? "";
  const isNew = row.new ?? row.was === null; // a row of a set has no rank, and says itself whether it is new
  const move = $(".move", node), by = isNew ? null : row.was - row.rank;
  move.dataset.way = by === null ? "new" : by > 0 ? "up" : by < 0 ? "down" : "";
  move.textContent = by === null ? "new" : by > 0 ? `▲${by}` : by < 0 ? `▼${-by}` : "";
  move.setAttribute("aria-label", by === null ? "new" : by > 0 ? `up ${by}` : by < 0 ? `down ${-by}` : "unchanged");
  const id = $(".id", node), extra = Object.values(row.values || {}).filter((value) => value !== null);
  const name = document.createElement("b");
  name.textContent = row.id;
  id.replaceChildren(name);
  id.title = [row.id, ...Object.entries(row.values || {}).map(([name, value]) => `${name} ${value}`)].join(" · ");
  if (extra.length) {
    const small = document.createElement("small");
    small.textContent = extra.join(" ");
    id.append(small);
  }
  const amount = finite(row.score), share = amount === null ? 1 : most ? Math.abs(amount) / most : 0;
  $(".bar i", node).style.setProperty("--share", share.toFixed(4));
  $(".score", node).textContent = score(row.score);
  $(".score", node).title = String(row.score);
  const age = $(".age", node);
  if (row.age !== undefined) {
    age.textContent = row.age === null ? "–" : span(row.age);
    age.title = row.age === null ? "its remote value is a default: nothing is known yet" : `its remote value is ${span(row.age)} old`;
    age.toggleAttribute("data-stale", row.age === null || row.age > 0);
  } else {
    age.textContent = isTime(row.time) && isTime(end) ? span((Date.parse(end) - Date.parse(row.time)) / 1000) : shortTime(row.time);
    age.title = `event of ${row.time}`;
  }
}

// ---- All of them.

const boards = new Map();
const speeds = [];
let stream = null;

function follow(entries) {
  const names = new Set(entries.map((entry) => entry.name));
  for (const [name, board] of boards) {
    if (!names.has(name)) { board.node.remove(); boards.delete(name); }
  }
  for (const entry of entries) {
    let board = boards.get(entry.name);
    if (board && JSON.stringify(board.entry.query) !== JSON.stringify(entry.query)) {
      board.node.remove();
      board = null;
    }
    if (board) board.describe(entry);
    else boards.set(entry.name, (board = new Board(entry)));
    if (!board.node.isConnected) $("#boards").append(board.node);
  }
  $("#empty").hidden = boards.size > 0;
}

function numbers(now) {
  newest = now;
  const tile = (name) => $(`[data-number=${name}]`), set = (name, text) => { $("dd", tile(name)).textContent = text; };
  const known = now.rows_per_second !== null && now.rows_per_second !== undefined;
  speeds.push(known ? now.rows_per_second : null);
  if (speeds.length > SPARK) speeds.shift();
  set("speed", known ? few.format(now.rows_per_second) : "–");
  tile("speed").title = known ? `${whole.format(now.rows)} events in all` : "only the process that runs the stream knows";
  spark($(".spark", tile("speed")), speeds);
  const today = now.lag !== null && now.lag !== undefined && Math.abs(now.lag) < 172800;
  set("lag", today ? span(now.lag) : shortTime(now.watermark) || "–");
  $("small", tile("lag")).textContent = today ? `at ${shortTime(now.watermark)}` : isTime(now.watermark) ? now.watermark.slice(0, 10) : "";
  meter(tile("kept"), now.kept, now.bound);
  set("late", whole.format(now.late || 0));
  $("small", tile("late")).textContent = `${whole.format(now.partly_late || 0)} more in part`;
  set("rejected", whole.format(now.rejected || 0));
  $("small", tile("rejected")).textContent = now.ahead ? `${whole.format(now.ahead)} ahead of the clock` : "no score, time or id";
  degraded(now.degraded);
  tile("budget").hidden = !now.refreshes;
  if (now.refreshes) {
    meter(tile("budget"), now.refreshes.spent, now.refreshes.budget);
    tile("budget").title += `; ${whole.format(now.refreshes.failures)} refreshes have failed so far`;
  }
  standing(now.health, now.says);
  for (const board of boards.values()) board.age();
}

function degraded(why) {
  const shown = $("#degraded"), text = why || "";
  shown.hidden = !why;
  if (shown.textContent !== text) shown.textContent = text; // an alert is read out when it changes
}

function meter(tile, part, all) {
  const text = document.createElement("small");
  text.textContent = all ? ` / ${few.format(all)}` : "";
  $("dd", tile).replaceChildren(few.format(part || 0), text);
  tile.title = `${whole.format(part || 0)} of at most ${whole.format(all || 0)}`;
  $(".meter i", tile).style.setProperty("--share", all ? Math.min(1, part / all).toFixed(4) : "0");
}

// ---- The connection: reconnects by itself, and says so.

const LIVE = { connecting: "connecting", lost: "reconnecting" };
let connection = null, newest = null, alarm = 0, again = 0, wait = 500;

function standing(state, says = LIVE[state]) {
  const live = $("#live"), changed = live.dataset.state !== state;
  live.dataset.state = document.body.dataset.health = state;
  $("span", live).textContent = says;
  if (changed) say(says); // to screen readers, not with every second that passes
}

function heard() {
  wait = 500;
  clearTimeout(alarm);
  alarm = setTimeout(() => { standing("lost"); connect(); }, 20000); // numbers come every second: this feed is dead
}

function connect() {
  clearTimeout(again);
  connection?.close();
  connection = new EventSource("/api/feed");
  const on = (kind, take) => connection.addEventListener(kind, (event) => { heard(); take(JSON.parse(event.data)); });
  on("hello", hello);
  on("queries", (data) => follow(data.queries));
  on("answer", (data) => boards.get(data.query)?.take(data));
  on("numbers", numbers);
  on("beat", () => {});
  on("missed", () => connect());
  connection.addEventListener("open", () => { heard(); if (newest) standing(newest.health, newest.says); });
  connection.addEventListener("error", () => {
    standing("lost");
    if (connection.readyState === EventSource.CLOSED) {
      clearTimeout(again);
      again = setTimeout(connect, wait);
      wait = Math.min(wait * 2, 8000);
    }
  });
  heard();
}

function hello(data) {
  stream = data.stream;
  follow(data.queries);
  for (const entry of data.queries) {
    const board = boards.get(entry.name);
    board.thresholds = entry.thresholds.map(([, value]) => finite(value));
    if (entry.latest) board.draw(entry.latest);
  }
  numbers(data.numbers);
  $("#columns").textContent = `The stream's columns: ${Object.entries(stream.columns).map(([name, type]) => `${name} (${type})`).join(", ")}`;
}

// ---- What needs the token.

const TOKEN = "skyband-token";
const token = {
  get value() { return sessionStorage.getItem(TOKEN) || ""; },
  set value(given) { sessionStorage.setItem(TOKEN, given); },
};
if (location.hash.startsWith("#token=")) {
  token.value = decodeURIComponent(location.hash.slice(7));
  history.replaceState(null, "", location.pathname);
}

class Refused extends Error {}

async function ask(method, path, body, media) {
  let reply;
  try {
    reply = await fetch(path, { method, body, headers: { authorization: `Bearer ${token.value}`, ...(media && { "content-type": media }) } });
  } catch {
    throw new Refused("the server cannot be reached; try again");
  }
  const data = await reply.json().catch(() => ({}));
  if (reply.ok) return data;
  if (reply.status === 401) {
    token.value = "";
    showTokens();
    throw new Refused("the token is missing or wrong");
  }
  throw new Refused(data.error || `the server said ${reply.status}`);
}

function showTokens() {
  for (const row of document.querySelectorAll(".token-row")) row.hidden = Boolean(token.value);
}
for (const input of document.querySelectorAll(".token-row input")) {
  input.addEventListener("change", () => { token.value = input.value.trim(); });
}

const path = (name) => `/api/queries/${encodeURIComponent(name)}`;

// ---- The forms.

const editor = $("#editor"), dialog = $("#question"), text = $("#text"), problem = $("#problem");
const quote = (name) => (/^[a-z_]\w*$/i.test(name) ? name : `"${name}"`);

function number() {
  const names = Object.entries(stream?.columns || {}).filter(([name, type]) => /^(u?int|float|double|decimal)/.test(type) && name !== stream.time && name !== stream.id);
  return names.length ? names[names.length - 1][0] : "score";
}

const LANGUAGES = {
  sql: { label: "SQL", media: "application/sql", sample: () => `CREATE VIEW my_query AS\nSELECT ${quote(stream?.id || "id")}, ${quote(number())} AS score\nFROM HOP(stream, ${quote(stream?.time || "ts")}, INTERVAL 5 SECONDS, INTERVAL 1 MINUTE)\nORDER BY score DESC\nLIMIT 5\n` },
  rspql: { label: "RSP-QL", media: "application/sparql-query", sample: () => `REGISTER STREAM :my_query AS\nSELECT ?it (?value AS ?score)\nFROM NAMED WINDOW :W ON :stream [RANGE 1m STEP 5s]\nWHERE { WINDOW :W { ?it :${number()} ?value } }\nORDER BY DESC(?score)\nLIMIT 5\n` },
  toml: { label: "TOML", media: "application/toml", sample: () => `[[query]]\nname = "my query"\nk = 5\nscore = "${number()}"\nsize = "1 minute"\nslide = "5 seconds"\n` },
};
let language = "toml", untouched = true, checking = 0;

for (const [name, one] of Object.entries(LANGUAGES)) {
  const label = document.createElement("label"), radio = document.createElement("input");
  radio.type = "radio";
  radio.name = "language";
  radio.value = name;
  radio.checked = name === language;
  radio.addEventListener("change", () => {
    language = name;
    if (untouched || !text.value.trim()) { text.value = one.sample(); untouched = true; }
    check();
  });
  label.append(radio, one.label);
  $(".tabs").append(label);
}

function complain(message, kind = "bad") {
  problem.dataset.kind = kind;
  problem.textContent = message;
  text.setAttribute("aria-invalid", String(kind === "bad" && Boolean(message)));
}

function check() {
  clearTimeout(checking);
  if (!token.value || !text.value.trim()) return;
  checking = setTimeout(async () => {
    const asked = text.value;
    try {
      const { explain } = await ask("POST", "/api/check", asked, LANGUAGES[language].media);
      if (asked === text.value && editor.open) complain(explain, "good");
    } catch (error) {
      if (asked === text.value && editor.open && error instanceof Refused) complain(error.message);
    }
  }, 400);
}

function openEditor(message = "") {
  if (untouched) text.value = LANGUAGES[language].sample();
  complain(message);
  showTokens();
  editor.showModal();
  text.focus();
  if (!message) check();
}

text.addEventListener("input", () => { untouched = false; check(); });
$("#add").addEventListener("click", () => openEditor());
$("form", editor).addEventListener("submit", async (event) => {
  event.preventDefault();
  clearTimeout(checking);
  const input = $("#token");
  if (!token.value) token.value = input.value.trim();
  const button = $("[type=submit]", editor);
  button.disabled = true;
  try {
    const { registered } = await ask("POST", "/api/queries", text.value, LANGUAGES[language].media);
    editor.close();
    untouched = true;
    input.value = "";
    say(`registered ${registered.join(", ")}`);
    boards.get(registered[0])?.node.scrollIntoView({ block: "nearest", behavior: calm.matches ? "auto" : "smooth" });
  } catch (error) {
    complain(error.message);
    problem.focus();
  } finally {
    button.disabled = false;
  }
});

// A change on a board: done at once where the token is known and nothing is lost by it; else a dialog asks first.

let asked = null;

async function question(about) {
  asked = about;
  let message = "";
  if (token.value && !about.danger) {
    try { await settle(); return; } catch (error) { message = error.message; }
  }
  openQuestion(message);
}

async function settle() {
  await asked.act();
  say(asked.done);
}

function openQuestion(message = "") {
  $("h2", dialog).textContent = asked.title;
  $("#question-hint").textContent = asked.hint;
  $(".problem", dialog).textContent = message;
  $("[data-close]", dialog).textContent = asked.no;
  $("[type=submit]", dialog).textContent = asked.yes;
  $("[type=submit]", dialog).className = asked.danger ? "danger" : "main";
  showTokens();
  dialog.showModal();
}

const pause = (name, resume) => question({
  title: `${resume ? "Resume" : "Pause"} “${name}”?`,
  hint: resume ? "Its answers are shown again, from its next window on." : "Its answers are not shown until someone resumes it.",
  yes: resume ? "Resume" : "Pause",
  no: "Cancel",
  act: () => ask("PATCH", path(name), JSON.stringify({ state: resume ? "active" : "paused" }), "application/json"),
  done: `${resume ? "resumed" : "paused"} ${name}`,
});

const remove = (name) => question({
  title: `Remove “${name}”?`,
  hint: "It stops for everyone who looks at this stream. Its answers are forgotten here.",
  yes: "Remove",
  no: "Keep it",
  danger: true,
  act: () => ask("DELETE", path(name)),
  done: `removed ${name}`,
});

$("form", dialog).addEventListener("submit", async (event) => {
  event.preventDefault();
  if (!token.value) token.value = $("#question-token").value.trim();
  try {
    await settle();
    dialog.close();
    if (asked.danger) $("#add").focus(); // the board and its buttons are gone
  } catch (error) {
    $(".problem", dialog).textContent = error.message;
  }
});
for (const button of document.querySelectorAll("[data-close]")) {
  button.addEventListener("click", () => button.closest("dialog").close());
}

// ---- Light and dark.

const THEMES = { "": ["◐", "as the system"], light: ["☀", "light"], dark: ["☾", "dark"] };
function theme(name) {
  const [sign, word] = THEMES[name];
  if (name) document.documentElement.dataset.theme = name;
  else delete document.documentElement.dataset.theme;
  $("#theme").textContent = sign;
  $("#theme").setAttribute("aria-label", `Theme: ${word}`);
  $("#theme").title = `Theme: ${word}`;
}
let chosen = localStorage.getItem("skyband-theme") || "";
if (!(chosen in THEMES)) chosen = "";
theme(chosen);
$("#theme").addEventListener("click", () => {
  const names = Object.keys(THEMES);
  chosen = names[(names.indexOf(chosen) + 1) % names.length];
  localStorage.setItem("skyband-theme", chosen);
  theme(chosen);
});

connect();
