// One lock: its holders, its queue in order, and its last break.

import { hasPath } from "./calls.js";
import { duration, explain, moment, t } from "./texts.js";
import { byId, element, setFacts, setText, sync, visible } from "./view.js";

export const ownerOf = (ticket) => visible(ticket.owner) || t("unnamed");

// "build-7 · 4242 · nightly"
export function whereOf(ticket) {
  return [ticket.host, ticket.pid > 0 ? ticket.pid : "", ticket.program]
    .map(visible).filter((part) => part !== "").join(" · ");
}

export const heldFor = (ticket) =>
  ticket.since_unix_ms > 0 ? duration(Date.now() - ticket.since_unix_ms) : "";

// Nobody counts on the lock any more: a lock-delay keeps it closed until the lease is over.
export const closedByDelay = (lock) => lock.opens_in_ms !== undefined;

// `age`: for so many milliseconds the ticket has not been asked for again.
export function leaseLeft(ticket, age) {
  const left = ticket.expires_in_ms - age;
  return left > 0 ? duration(left) : t("ended");
}

function timeLeft(ticket, age) {
  const left = ticket.expires_in_ms - age;
  return left > 0 ? t("unless_renewed", { time: duration(left) }) : t("ended");
}

function facts(lock, ticket, age) {
  return [
    [t("owner"), ownerOf(ticket)],
    [t("host"), visible(ticket.host), "data mono"],
    [t("process"), ticket.pid > 0 ? visible(ticket.pid) : "", "data mono"],
    [t("program"), visible(ticket.program)],
    [t("since"), moment(ticket.since_unix_ms)],
    [t("held_for"), heldFor(ticket)],
    closedByDelay(lock)
      ? [t("delay_left"), t("delay_keeps", { left: leaseLeft(ticket, age) })]
      : [t("lease_left"), timeLeft(ticket, age)],
    [t("mode"), t(ticket.mode)],
    [t("token"), visible(ticket.token), "data mono"],
    [t("reason"), visible(ticket.reason)],
  ];
}

// A queue may be long, so a waiter has four lines.
function makeWaiter() {
  const card = element("li");
  card.append(element("strong", "data"), element("div", "data muted"), element("div"),
    element("div", "data"));
  return card;
}

function updateWaiter(card, ticket, age) {
  const words = { since: moment(ticket.since_unix_ms), time: heldFor(ticket),
    left: timeLeft(ticket, age), mode: t(ticket.mode) };
  const texts = [ownerOf(ticket), whereOf(ticket),
    t(ticket.since_unix_ms > 0 ? "waits" : "waits_unknown", words), visible(ticket.reason)];
  texts.forEach((text, index) => setText(card.children[index], text));
}

// `onBreak(ticket)` opens the dialog.
function makeHolder(lock, onBreak) {
  const card = element("li");
  card.append(element("dl", "facts"));
  const button = element("button");
  button.type = "button";
  button.addEventListener("click", () => onBreak(card.ticket));
  card.append(hasPath(lock.name) ? button : element("p", "muted"));
  return card;
}

function updateHolder(card, lock, ticket, age) {
  card.ticket = ticket;
  setFacts(card.firstChild, facts(lock, ticket, age));
  const last = card.lastChild;
  if (!hasPath(lock.name)) return setText(last, t("no_break_here"));
  setText(last, t("break_button"));
  last.setAttribute("aria-label",
    t("break_label", { owner: ownerOf(ticket), token: visible(ticket.token) }));
}

// `many`: how many there are; `tickets` has the first of them.
function showList(name, list, count, many, tickets, none, create, update) {
  const shown = many > tickets.length ? `${tickets.length} / ${many}` : String(many);
  setText(count, many > 0 ? shown : t(none));
  list.hidden = tickets.length === 0;
  sync(list, tickets, (ticket) => `${ticket.token ?? ""} ${name}`, create, update);
}

// `open`: { name, lock or null, error or null, at }; `age` as of leaseLeft().
export function showDetail(open, age, onBreak) {
  setText(byId("detail-name"), visible(open.name));
  const trouble = byId("detail-trouble");
  trouble.hidden = open.error === null;
  setText(trouble, open.error === null ? "" : t("no_lock", { why: visible(explain(open.error)) }));
  const { lock } = open;
  byId("detail-body").hidden = lock === null;
  if (lock === null) return;
  showList(open.name, byId("holders"), byId("holder-count"), lock.holding, lock.holders,
    "nobody_holds",
    () => makeHolder(lock, onBreak),
    (card, ticket) => updateHolder(card, lock, ticket, age));
  showList(open.name, byId("queue"), byId("queue-count"), lock.waiting, lock.queue, "nobody_waits",
    makeWaiter, (card, ticket) => updateWaiter(card, ticket, age));
  const last = lock.last_break;
  byId("last-break").hidden = !last;
  if (last) {
    setFacts(byId("last-break-facts"), [
      [t("token"), visible(last.token), "data mono"],
      [t("broken_by"), visible(last.by)],
      [t("reason"), visible(last.reason)],
    ]);
  }
}
