// The dialog that breaks a hold. It names one token, so it never ends the hold of somebody else.

import { Unreachable, breakHold } from "./calls.js";
import { ownerOf, whereOf } from "./detail.js";
import { explain, t } from "./texts.js";
import { byId, setFacts, setText, visible } from "./view.js";

const LONGEST_BYTES = 256;

const dialog = byId("break");
const reason = byId("break-reason");
const owner = byId("break-owner");
const submit = byId("break-submit");

let asked = null;  // { name, ticket }
let onBroken = () => {};

function showTrouble(text, field = null) {
  setText(byId("break-error"), text);
  for (const each of [reason, owner]) {
    each.setAttribute("aria-invalid", String(each === field));
  }
  field?.focus();
}

export function renderBreak() {
  if (asked === null) return;
  const { name, ticket } = asked;
  setFacts(byId("break-facts"), [
    [t("name"), visible(name)],
    [t("owner"), ownerOf(ticket)],
    [t("where"), whereOf(ticket)],
    [t("token"), visible(ticket.token), "data mono"],
  ]);
}

export function openBreak(name, ticket) {
  asked = { name, ticket };
  reason.value = "";
  showTrouble("");
  renderBreak();
  dialog.showModal();
  reason.focus();
}

const tooLong = (text) => new TextEncoder().encode(text).length > LONGEST_BYTES;

async function send() {
  const why = reason.value.trim();
  const by = owner.value.trim();
  if (why === "") return showTrouble(t("say_why"), reason);
  if (tooLong(why)) return showTrouble(t("too_long"), reason);
  if (tooLong(by)) return showTrouble(t("too_long"), owner);
  const { name, ticket } = asked;
  showTrouble("");
  submit.disabled = true;
  setText(submit, t("breaking"));
  try {
    await breakHold(name, ticket.token, why, by);
    dialog.close();
    onBroken({ name, token: ticket.token });
  } catch (error) {
    const lost = error instanceof Unreachable;
    showTrouble(lost ? t("lost_answer") : t("not_broken", { why: visible(explain(error)) }));
  } finally {
    submit.disabled = false;
    setText(submit, t("break_now"));
    if (dialog.open) submit.focus();
  }
}

// `done({ name, token })` is called after a break.
export function beginBreak(done) {
  onBroken = done;
  byId("break-form").addEventListener("submit", (event) => {
    event.preventDefault();
    if (!submit.disabled) send();
  });
  byId("break-cancel").addEventListener("click", () => dialog.close());
  // The event comes later: the dialog may be open again by then, for another hold.
  dialog.addEventListener("close", () => { if (!dialog.open) asked = null; });
}
