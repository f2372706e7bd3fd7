"""The Python peers of `make bench-peers`: redis-py's Lock and kazoo's, used as their own documentation
shows, with a thread for each caller. The flags and the line it prints are described in
bench/peers/README.md."""

import argparse
import json
import logging
import re
import resource
import sys
import threading
import time
from pathlib import Path


def open_redis(options):
    import redis

    host, port = options.store.split(":")
    client = redis.Redis(host=host, port=int(port), max_connections=options.callers + 2)

    def acquire(name):
        # It polls every 100 ms where it is not told otherwise.
        lock = client.lock(name, timeout=options.ttl_ms / 1000, sleep=0.01)
        if not lock.acquire(blocking=True):
            raise RuntimeError(f"{name}: not acquired")
        return lock.release

    return acquire


def open_kazoo(options):
    from kazoo.client import KazooClient

    logging.getLogger("kazoo").setLevel(logging.CRITICAL)
    client = KazooClient(hosts=options.store, timeout=options.ttl_ms / 1000)
    client.start()

    def acquire(name):
        lock = client.Lock("/" + name)
        lock.acquire()
        return lock.release

    return acquire


LOCKS = {"redis-py": open_redis, "kazoo": open_kazoo}


def name_of(options, caller, pair):
    if options.mode == "hot":
        return f"{options.prefix}-hot"
    if options.mode == "new":
        return f"{options.prefix}-{caller}-{pair}"
    return f"{options.prefix}-{caller}"


class Caller(threading.Thread):
    measuring = False
    over = False

    def __init__(self, options, acquire, number):
        super().__init__(daemon=True)
        self.options, self.acquire, self.number = options, acquire, number
        self.pairs, self.longest, self.failure = [], 0.0, None

    def run(self):
        pair = 0
        try:
            while not Caller.over:
                counted = Caller.measuring
                begun = time.perf_counter()
                release = self.acquire(name_of(self.options, self.number, pair))
                waited = time.perf_counter() - begun
                release()
                if counted and Caller.measuring:
                    self.pairs.append((time.perf_counter() - begun) * 1e6)
                    self.longest = max(self.longest, waited * 1e6)
                pair += 1
        except Exception as error:  # pylint: disable=broad-except
            self.failure = error


def cpu():
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def resident_kib():
    return int(re.search(r"VmRSS:\s+(\d+)", Path("/proc/self/status").read_text())[1])


def measure(options, acquire):
    callers = [Caller(options, acquire, number) for number in range(options.callers)]
    for caller in callers:
        caller.start()
    time.sleep(options.warmup)
    used, begun = cpu(), time.perf_counter()
    Caller.measuring = True
    time.sleep(options.seconds)
    Caller.measuring = False
    used, elapsed = cpu() - used, time.perf_counter() - begun
    Caller.over = True
    for caller in callers:
        caller.join(10)
        if caller.failure:
            raise caller.failure
    pairs = sorted(pair for caller in callers for pair in caller.pairs)
    if not pairs:
        raise RuntimeError("not one pair in the time measured")
    shares = [len(caller.pairs) for caller in callers]

    def at(share):
        return pairs[min(len(pairs) - 1, int(share * len(pairs)))]

    print(json.dumps({
        "pairs": len(pairs), "seconds": elapsed, "p50_us": at(0.5), "p90_us": at(0.9),
        "p99_us": at(0.99), "max_us": pairs[-1],
        "longest_wait_us": max(caller.longest for caller in callers), "least_share": min(shares),
        "most_share": max(shares), "client_cpu_us": used * 1e6 / len(pairs)}))


def hold(options, acquire):
    """Takes `count` locks, says so, and keeps them until standard input is closed."""
    before = resident_kib()
    held = [acquire(f"{options.prefix}-{i}") for i in range(options.count)]
    print(json.dumps({"held": len(held), "rss_before_kib": before, "rss_kib": resident_kib()}),
          flush=True)
    sys.stdin.read()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--lock", choices=LOCKS, required=True)
    parser.add_argument("--mode", choices=["own", "hot", "new", "hold"], default="own")
    parser.add_argument("--store", required=True)
    parser.add_argument("--prefix", default="peer")
    parser.add_argument("--callers", type=int, default=1)
    parser.add_argument("--count", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2)
    parser.add_argument("--warmup", type=float, default=0.3)
    parser.add_argument("--ttl-ms", type=int, default=30000)
    options = parser.parse_args()
    try:
        acquire = LOCKS[options.lock](options)
        (hold if options.mode == "hold" else measure)(options, acquire)
    except Exception as error:  # pylint: disable=broad-except
        print(f"peer {options.lock}: {error!r}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
