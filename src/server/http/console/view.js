// Building and updating the page. Names, owners and reasons come from strangers: they become text
// nodes only, never markup.

export const byId = (id) => document.getElementById(id);

// Controls, directions and other characters that cannot be seen, as the command line escapes them.
const UNSEEN = new RegExp(
  "[\\u0000-\\u001f\\u007f-\\u009f\\u00ad\\u061c\\u115f\\u1160\\u17b4\\u17b5\\u180e\\u200b-\\u200f" +
    "\\u2028-\\u202f\\u205f-\\u206f\\u3164\\ufeff\\uffa0\\ufff9-\\ufffb]|[\\ud800-\\udfff]" +
    "|[\\u{e0000}-\\u{e0fff}]", "gu");

export const visible = (text) => String(text ?? "").replace(UNSEEN, (character) =>
  `\\u{${character.codePointAt(0).toString(16)}}`);

// An unchanged node keeps what the user has selected in it.
export function setText(node, text) {
  if (node.textContent !== text) node.textContent = text;
}

export function element(tag, className = "", text = "") {
  const node = document.createElement(tag);
  if (className !== "") node.className = className;
  if (text !== "") node.textContent = text;
  return node;
}

// Makes the children of `parent` those of `items`, in order. A child whose item is still there
// stays the same node in its place, so it keeps the focus.
export function sync(parent, items, keyOf, create, update) {
  const seen = new Map();
  const keys = items.map((item) => {
    const key = keyOf(item);
    const times = seen.get(key) ?? 0;
    seen.set(key, times + 1);
    return `${times} ${key}`;
  });
  const wanted = new Set(keys);
  const old = new Map();
  for (const node of [...parent.children]) {
    if (wanted.has(node.syncKey)) old.set(node.syncKey, node);
    else node.remove();
  }
  let at = parent.firstElementChild;
  items.forEach((item, index) => {
    let node = old.get(keys[index]);
    if (node === undefined) {
      node = create(item);
      node.syncKey = keys[index];
    }
    update(node, item);
    if (node === at) at = at.nextElementSibling;
    else parent.insertBefore(node, at);
  });
}

// A list of terms: [term, text, class of the text]. An entry without a text is left out.
export function setFacts(list, entries) {
  sync(list, entries.filter(([, text]) => text !== ""), () => "",
    () => {
      const entry = element("div");
      entry.append(element("dt"), element("dd"));
      return entry;
    },
    (entry, [term, text, className]) => {
      setText(entry.firstChild, term);
      setText(entry.lastChild, text);
      const wanted = className ?? "data";
      if (entry.lastChild.className !== wanted) entry.lastChild.className = wanted;
    });
}
