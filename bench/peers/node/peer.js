// The Node.js peer of `make bench-peers`: redlock over ioredis, used as its own documentation shows. The
// flags and the line it prints are described in bench/peers/README.md.
import { createRequire } from "node:module";
import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";
import Redis from "ioredis";

// Its package.json names no ES module that Node.js would find.
const Redlock = createRequire(import.meta.url)("redlock").default;

function fail(message) {
  console.error(`peer redlock: ${message}`);
  process.exit(1);
}

function flags(options) {
  try {
    return parseArgs({ options }).values;
  } catch (error) {
    return fail(error.message);
  }
}

const values = flags({
  lock: { type: "string", default: "redlock" },
  mode: { type: "string", default: "own" },
  store: { type: "string" },
  prefix: { type: "string", default: "peer" },
  callers: { type: "string", default: "1" },
  count: { type: "string", default: "1" },
  seconds: { type: "string", default: "2" },
  warmup: { type: "string", default: "0.3" },
  "ttl-ms": { type: "string", default: "30000" },
});
if (values.lock !== "redlock") fail("unknown --lock: use redlock");
if (!["own", "new", "hot", "hold"].includes(values.mode)) fail("unknown --mode: use own, new, hot or hold");
if (!values.store) fail("--store HOST:PORT is needed");
const callers = Number(values.callers);
const ttl = Number(values["ttl-ms"]);
const [host, port] = values.store.split(":");
const client = new Redis({ host, port: Number(port) });
// retryCount -1: these callers wait until they have the lock.
const redlock = new Redlock([client], { retryCount: -1 });
redlock.on("error", () => {}); // A lock that somebody holds is one, too.

const sleep = (seconds) => new Promise((done) => setTimeout(done, seconds * 1000));
const micros = () => Number(process.hrtime.bigint()) / 1e3;
const cpu = () => {
  const used = process.cpuUsage();
  return used.user + used.system;
};
const residentKib = () => Number(/VmRSS:\s+(\d+)/.exec(readFileSync("/proc/self/status", "utf8"))[1]);

function nameOf(caller, pair) {
  if (values.mode === "hot") return `${values.prefix}-hot`;
  if (values.mode === "new") return `${values.prefix}-${caller}-${pair}`;
  return `${values.prefix}-${caller}`;
}

const WARMING = 0;
const MEASURING = 1;
const OVER = 2;
let phase = WARMING;

async function call(caller) {
  const tally = { pairs: [], longest: 0 };
  for (let pair = 0; phase !== OVER; ++pair) {
    const counted = phase;
    const begun = micros();
    const lock = await redlock.acquire([nameOf(caller, pair)], ttl);
    const waited = micros() - begun;
    await lock.release();
    if (counted === MEASURING && phase === MEASURING) {
      tally.pairs.push(micros() - begun);
      tally.longest = Math.max(tally.longest, waited);
    }
  }
  return tally;
}

async function measure() {
  const calls = Array.from({ length: callers }, (_, caller) => call(caller));
  await sleep(Number(values.warmup));
  const [used, begun] = [cpu(), micros()];
  phase = MEASURING;
  await sleep(Number(values.seconds));
  phase = OVER;
  const [spent, elapsed] = [cpu() - used, (micros() - begun) / 1e6];
  const tallies = await Promise.all(calls);
  const pairs = tallies.flatMap((tally) => tally.pairs).sort((a, b) => a - b);
  if (pairs.length === 0) throw new Error("not one pair in the time measured");
  const shares = tallies.map((tally) => tally.pairs.length);
  const at = (q) => pairs[Math.min(pairs.length - 1, Math.floor(q * pairs.length))];
  console.log(JSON.stringify({
    pairs: pairs.length, seconds: elapsed, p50_us: at(0.5), p90_us: at(0.9), p99_us: at(0.99),
    max_us: pairs.at(-1), longest_wait_us: Math.max(...tallies.map((tally) => tally.longest)),
    least_share: Math.min(...shares), most_share: Math.max(...shares), client_cpu_us: spent / pairs.length,
  }));
}

// Takes `count` locks, says so, and keeps them until standard input is closed.
async function hold() {
  const before = residentKib();
  const held = [];
  for (let i = 0; i < Number(values.count); ++i) {
    held.push(await redlock.acquire([`${values.prefix}-${i}`], ttl));
  }
  console.log(JSON.stringify({ held: held.length, rss_before_kib: before, rss_kib: residentKib() }));
  for await (const _ of process.stdin);
}

try {
  await (values.mode === "hold" ? hold() : measure());
  process.exit(0);
} catch (error) {
  fail(error.message);
}
