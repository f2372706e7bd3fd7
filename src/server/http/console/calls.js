// The calls of docs/guide/http.md that the console makes. All go to the origin of the page.

const PATIENCE_MS = 10000;
const PAGE_SIZE = 100;

// No answer came, so nothing is known.
export class Unreachable extends Error {}

// The server refused. `code` and `next` are those of its answer.
export class Refused extends Error {
  constructor(status, error) {
    super(error.message ?? "");
    this.status = status;
    this.code = error.code ?? `http_${status}`;
    this.next = error.next ?? "";
  }
}

async function call(path, options = {}) {
  let response;
  let text;
  try {
    response = await fetch(path, {
      cache: "no-store",
      credentials: "same-origin",
      redirect: "error",
      signal: AbortSignal.timeout(PATIENCE_MS),
      ...options,
    });
    text = await response.text();
  } catch (error) {
    throw new Unreachable(String(error));
  }
  let body = null;
  try {
    body = JSON.parse(text);
  } catch {
    // Something between the page and the server may have answered. Its status says enough.
  }
  if (!response.ok || body === null) throw new Refused(response.status, body?.error ?? {});
  return body;
}

// A browser resolves a path of dots before it sends it, and inner locks of primitives have a part
// of two dots, which no path may name. The list shows these locks, too.
export function hasPath(name) {
  return name !== "." && !`/${name}/`.includes("/../");
}

const pathOf = (name) => `v1/locks/${encodeURIComponent(name)}`;

export const server = () => call("v1/server");

export function locks(prefix, after, limit = PAGE_SIZE) {
  const query = new URLSearchParams({ prefix, after, limit });
  // The server takes a plus sign as it is.
  return call(`v1/locks?${query.toString().replaceAll("+", "%20")}`);
}

export async function lock(name) {
  if (hasPath(name)) return call(pathOf(name));
  const { locks: found } = await locks(name, "", 1);
  return found[0]?.name === name ? found[0] : { name, holders: [], queue: [] };
}

export function breakHold(name, token, reason, owner) {
  return call(`${pathOf(name)}/break`, {
    method: "POST",
    headers: { "Content-Type": "application/json", "Holdfast-Request": "1" },
    body: JSON.stringify(owner === "" ? { token, reason } : { token, reason, owner }),
  });
}
