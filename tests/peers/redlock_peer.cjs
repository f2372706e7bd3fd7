// node-redlock for a test: HOST:PORT COMMANDS LEASE_MS. See RedissonPeer.java for the lines.
const { createReadStream } = require("node:fs");
const { createInterface } = require("node:readline");
const Redis = require("ioredis");
const Redlock = require("redlock").default;

const [place, file, lease] = process.argv.slice(2);
const [host, port] = place.split(":");
const client = new Redis({ host, port: Number(port) });
const patient = new Redlock([client], { retryCount: -1, retryDelay: 20, retryJitter: 10 });
const once = new Redlock([client], { retryCount: 0 });
for (const each of [patient, once]) each.on("error", () => {}); // A lock that somebody holds is one, too.
const locks = new Map();

async function answer(verb, key) {
  if (verb === "take" || verb === "try") {
    locks.set(key, await (verb === "take" ? patient : once).acquire([key], Number(lease)));
  } else if (verb === "extend") {
    locks.set(key, await locks.get(key).extend(Number(lease)));
  } else {
    const lock = locks.get(key);
    locks.delete(key);
    await lock.release();
  }
  return "yes";
}

console.log("0 ready");
createInterface({ input: createReadStream(file) }).on("line", async (line) => {
  const [number, verb, key] = line.split(" ");
  const word = await answer(verb, key).catch(() => "no");
  console.log(`${number} ${word}`);
});
