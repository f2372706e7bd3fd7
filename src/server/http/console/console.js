// The console's state, its clock, and the table of locks.

import * as calls from "./calls.js";
import { beginBreak, openBreak, renderBreak } from "./breaking.js";
import { closedByDelay, heldFor, leaseLeft, ownerOf, showDetail, whereOf } from "./detail.js";
import { beginLanguage, chooseLanguage, clock, duration, explain, language, moment, t }
  from "./texts.js";
import { byId, element, setFacts, setText, sync, visible } from "./view.js";

const REFRESH_MS = 2000;
const TICK_MS = 1000;
const TYPING_MS = 250;
const TOLD_FOR_MS = 15000;

const state = {
  server: null,        // The last answer of /v1/server.
  serverError: null,
  locks: null,         // The last answer of /v1/locks.
  locksError: null,
  at: 0,               // When they came, by performance.now().
  seen: null,          // The same as a Date; null: no answer came yet.
  reachable: true,
  paused: false,
  pages: [""],         // The names after which the pages begin, up to this one.
  open: null,          // The lock in detail: { name, lock, error }.
  told: null,          // { key, values, until }: the outcome of the user's last action.
};

let round = 0;
let timer = 0;

const prefix = () => byId("prefix").value;
const age = () => performance.now() - state.at;
const errorOf = (result) => (result.status === "rejected" ? result.reason : null);
const valueOf = (result) => (result.status === "fulfilled" ? result.value : null);

// --- Asking.

async function refresh() {
  clearTimeout(timer);
  const mine = ++round;
  const after = state.pages[state.pages.length - 1];
  const name = state.open?.name;
  const [server, locks, lock] = await Promise.allSettled([
    calls.server(), calls.locks(prefix(), after),
    name === undefined ? null : calls.lock(name)]);
  if (mine !== round) return;  // The user has asked for something else meanwhile.
  state.reachable = ![server, locks, lock].some(
    (result) => errorOf(result) instanceof calls.Unreachable);
  if (state.reachable) {
    state.at = performance.now();
    state.seen = new Date();
    state.server = valueOf(server);
    state.serverError = errorOf(server);
    state.locks = valueOf(locks);
    state.locksError = errorOf(locks);
    if (name !== undefined && state.open?.name === name) {
      state.open.lock = valueOf(lock);
      state.open.error = errorOf(lock);
    }
  }
  render();
  schedule();
}

// A hidden page asks for nothing.
function schedule() {
  clearTimeout(timer);
  if (!state.paused && !document.hidden) timer = setTimeout(refresh, REFRESH_MS);
}

// --- The state of the server.

function badge() {
  if (!state.reachable) return ["away", "bad"];
  if (state.server !== null) return state.server.leads ? ["leads", "good"] : ["stands_by", "warn"];
  if (state.locksError?.code === "standing_by") return ["stands_by", "warn"];
  if (state.serverError !== null && state.locksError !== null) return ["refused", "bad"];
  return state.locks !== null ? ["leads", "good"] : ["asking", ""];
}

// The shards of each server, in the order of the shards: "192.0.2.1:7420: 0, 2".
function byLeader(shards) {
  const led = new Map();
  shards.forEach(({ shard, leader }) => led.set(leader, [...(led.get(leader) ?? []), shard]));
  return [...led].map(([leader, own]) => `${visible(leader) || t("not_known")}: ${own.join(", ")}`)
    .join("; ");
}

const shardsOf = (server) =>
  (server?.shard_leaders ?? []).map((leader, shard) => ({ shard, leader }));
const ownShards = (server) => shardsOf(server).filter(({ leader }) => leader === server.address);
const otherShards = (server) => shardsOf(server).filter(({ leader }) => leader !== server.address);

function shardFacts(server) {
  if (server.shard_leaders === undefined) return [[t("shards"), String(server.shards ?? "")]];
  return [
    [t("shards"), t("shards_led", { leading: server.leading, shards: server.shards,
      own: ownShards(server).map(({ shard }) => shard).join(", ") || "-" })],
    [t("other_shards"), byLeader(otherShards(server)), "data mono"],
  ];
}

function renderServer() {
  const [key, kind] = badge();
  const shown = byId("state");
  setText(shown, t(key));
  shown.className = `badge ${kind}`;
  setText(byId("updated"), state.seen === null ? "" : t("updated", { time: clock(state.seen) }));
  const { server } = state;
  if (server === null) return setFacts(byId("server"), []);
  const journal = [server.journal, server.journal_place].map(visible);
  const sharded = server.shard_leaders !== undefined;
  const leader = server.leads ? t("this_server", { address: visible(server.leader) })
    : visible(server.leader) || t("not_known");
  const number = (value) => (value === undefined ? "" : String(value));
  setFacts(byId("server"), [
    [t("leader"), sharded ? "" : leader, "data mono"],
    [t("address"), server.leads && !sharded ? "" : visible(server.address), "data mono"],
    ...shardFacts(server),
    [t("holders"), number(server.holders)],
    [t("waiters"), number(server.waiters)],
    [t("journal"), journal[1].startsWith(journal[0]) ? journal[1] : journal.join(" "), "data mono"],
    [t("uptime"), duration(server.uptime_ms + (state.paused || !state.reachable ? 0 : age()))],
    [t("version"), visible(server.version)],
  ]);
}

// --- Notices: conditions that last, and the outcome of the last action.

// The locks that are not shown, because this server could not ask those that lead them.
function missing() {
  if (state.locksError?.code !== "standing_by") {
    const left = state.locks?.elsewhere ?? [];
    return left.length === 0 ? null : t("part", { count: left.length, leaders: byLeader(left) });
  }
  if (state.server?.shard_leaders !== undefined) {
    return t("no_shard", { leaders: byLeader(otherShards(state.server)) });
  }
  const leader = visible(state.server?.leader);
  return leader === "" ? t("no_leader") : t("standing_by", { leader });
}

function notices() {
  const found = [];
  if (state.told !== null && performance.now() < state.told.until) {
    found.push(["good", t(state.told.key, state.told.values)]);
  }
  if (!state.reachable) {
    found.push(["bad", state.seen === null ? t("never_reached")
      : t("not_reachable", { time: clock(state.seen) })]);
    return found;
  }
  if (state.paused && state.seen !== null) {
    found.push(["", t("paused", { time: clock(state.seen) })]);
  }
  const unseen = missing();
  if (unseen !== null) found.push(["", unseen]);
  if (state.locksError?.code === "standing_by") return found;
  if (state.server?.journal_answers === false) found.push(["bad", t("silent")]);
  if (state.server?.journal_full) found.push(["bad", t("full")]);
  if (state.server?.quiet_s > 0) {
    found.push(["bad", t("restored", { time: duration(state.server.quiet_s * 1000) })]);
  }
  if (state.serverError !== null) {
    found.push(["", t("no_state", { why: visible(explain(state.serverError)) })]);
  }
  if (state.locksError !== null) {
    found.push(["bad", t("no_list", { why: visible(explain(state.locksError)) })]);
  }
  return found;
}

function renderNotices() {
  sync(byId("notices"), notices(), ([kind, text]) => `${kind} ${text}`,
    ([kind, text]) => element("p", `notice data ${kind}`, text), () => {});
}

// --- The table.

const COLUMNS = ["clip data", "clip data", "", "number", "number", "clip data", "mono", "number"];

function makeRow() {
  const row = element("tr");
  const head = element("th", "clip");
  head.scope = "row";
  const button = element("button", "lock data");
  button.type = "button";
  button.addEventListener("click", () => open(row.lock.name));
  head.append(button);
  row.append(head, ...COLUMNS.map((column) => element("td", column)));
  return row;
}

function ownersOf(lock) {
  if (lock.holding === 0) return t("nobody");
  const owner = ownerOf(lock.holders[0]);
  if (lock.holding === 1) return owner;
  return t("and_more", { owner, count: lock.holding });
}

// How many wait, and for how long the first of them.
function waitingFor(lock) {
  if (lock.waiting === 0) return "0";
  return [String(lock.waiting), heldFor(lock.queue[0])].filter((part) => part !== "").join(" · ");
}

function updateRow(row, lock) {
  row.lock = lock;
  const first = lock.holders[0];
  const button = row.firstChild.firstChild;
  const opened = state.open?.name === lock.name;
  setText(button, visible(lock.name));
  button.title = visible(lock.name);
  button.setAttribute("aria-expanded", String(opened));
  row.className = opened ? "chosen" : "";
  const texts = [ownersOf(lock)].concat(
    first === undefined ? ["", "", "", "", "", ""] : [
      whereOf(first), moment(first.since_unix_ms), heldFor(first),
      closedByDelay(lock) ? t("delay", { left: leaseLeft(first, age()) }) : leaseLeft(first, age()),
      visible(first.reason), visible(first.token)],
    [waitingFor(lock)]);
  texts.forEach((text, index) => {
    const cell = row.children[index + 1];
    setText(cell, text);
    if (COLUMNS[index].startsWith("clip") && cell.title !== text) cell.title = text;
  });
  row.children[1].classList.toggle("muted", first === undefined);
  row.children[5].classList.toggle("ended", first !== undefined &&
    first.expires_in_ms <= age());
}

const lockButtons = () => [...byId("rows").querySelectorAll(".lock")];

function renderLocks() {
  const locks = state.locks?.locks ?? [];
  const focused = lockButtons().indexOf(document.activeElement);
  sync(byId("rows"), locks, (lock) => lock.name, makeRow, updateRow);
  // The row with the focus may have gone: its neighbour gets the focus, not the page's beginning.
  if (focused >= 0 && document.activeElement === document.body) {
    const buttons = lockButtons();
    (buttons[Math.min(focused, buttons.length - 1)] ?? byId("prefix")).focus();
  }
  const known = state.locks !== null;
  byId("table").hidden = !known;
  byId("empty").hidden = !known || locks.length > 0;
  // A full page does not tell whether another lock follows it.
  const all = prefix() === "" ? t("empty") : t("empty_prefix", { prefix: visible(prefix()) });
  setText(byId("empty"), state.pages.length > 1 ? t("no_more") : all);
  setText(byId("count"), known ? t("count", { count: locks.length }) : "");
  byId("previous").hidden = state.pages.length === 1;
  byId("next").hidden = state.locks?.next_after === undefined;
}

// --- One lock.

function open(name) {
  state.open = { name, lock: state.locks?.locks.find((lock) => lock.name === name) ?? null,
    error: null };
  render();
  byId("detail-name").focus();
  refresh();
}

function close() {
  const name = state.open?.name;
  state.open = null;
  render();
  const back = lockButtons().find((button) => button.closest("tr").lock.name === name);
  (back ?? byId("prefix")).focus();
}

function renderDetail() {
  const detail = byId("detail");
  const lostFocus = detail.contains(document.activeElement);
  detail.hidden = state.open === null;
  byId("main").classList.toggle("split", state.open !== null);
  if (state.open === null) return;
  showDetail(state.open, age(), (ticket) => openBreak(state.open.name, ticket));
  if (lostFocus && document.activeElement === document.body) byId("detail-name").focus();
}

function render() {
  document.body.classList.toggle("stale", !state.reachable);
  setText(byId("pause"), t(state.paused ? "go_on" : "pause"));
  renderServer();
  renderNotices();
  renderLocks();
  renderDetail();
  renderBreak();
}

// --- The user.

function setPaused(paused) {
  state.paused = paused;
  if (paused) {
    ++round;  // An answer that is under way must not change what is shown.
    clearTimeout(timer);
    render();
  } else {
    render();
    refresh();
  }
}

function turnTo(pages) {
  state.pages = pages;
  refresh();
}

function moveInTable(event) {
  const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  const buttons = lockButtons();
  const at = buttons.indexOf(event.target);
  if (step === undefined || at < 0) return;
  event.preventDefault();
  buttons[Math.min(Math.max(at + step, 0), buttons.length - 1)].focus();
}

function onEscape(event) {
  if (event.key !== "Escape" || event.defaultPrevented || state.open === null) return;
  if (byId("break").open) return;  // The dialog closes by itself.
  if (event.target === byId("prefix") && prefix() !== "") return;  // The browser empties it.
  close();
}

function begin() {
  beginLanguage();
  byId("language").value = language();
  byId("language").addEventListener("change", (event) => {
    chooseLanguage(event.target.value);
    render();
  });
  byId("pause").addEventListener("click", () => setPaused(!state.paused));
  byId("previous").addEventListener("click", () => turnTo(state.pages.slice(0, -1)));
  byId("next").addEventListener("click",
    () => turnTo([...state.pages, state.locks.next_after]));
  byId("close").addEventListener("click", close);
  let typing = 0;
  byId("prefix").addEventListener("input", () => {
    clearTimeout(typing);
    typing = setTimeout(() => turnTo([""]), TYPING_MS);
  });
  byId("filter").addEventListener("submit", (event) => {
    event.preventDefault();
    clearTimeout(typing);
    turnTo([""]);
  });
  byId("rows").addEventListener("keydown", moveInTable);
  document.addEventListener("keydown", onEscape);
  document.addEventListener("visibilitychange", () => {
    if (!document.hidden && !state.paused) refresh();
  });
  beginBreak(({ name, token }) => {
    state.told = { key: "broken", until: performance.now() + TOLD_FOR_MS,
      values: { name: visible(name), token: visible(token) } };
    refresh();
  });
  setInterval(() => {
    if (!state.paused && state.reachable && state.seen !== null) render();
  }, TICK_MS);
  refresh();
}

begin();
