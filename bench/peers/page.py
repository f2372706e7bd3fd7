"""docs/performance.md with its charts and docs/performance-ids.md, made of the figures of bench/peers/run."""

import math
import statistics
from pathlib import Path

OWN = [1, 16, 64, 256, 1024]  # The last one only where peers go so far.
STORES = {"redis": "Redis", "zookeeper": "ZooKeeper", "etcd": "etcd", "consul": "Consul"}
COLOURS = ["#0b6e4f", "#2f9e73", "#c1121f", "#e07a1f", "#5b5bd6", "#8d6a9f", "#3f88c5", "#7a7a7a",
           "#b08900", "#a23b72", "#4a4e69"]

# What articles say that a lock on each reaches, in operations per second, and what the store's page has of the server
# without Holdfast.
CLAIMS = [("Redis", "100,000 and more", ""),
          ("ZooKeeper", "10,000 to 20,000",
           "no rate; ours was 3.0 times it with 256 in flight ([page](stores/zookeeper.md#speed))"),
          ("etcd", "10,000 and more",
           "no rate; ours was 5.2 to 5.6 times it with 256 in flight ([page](stores/etcd.md#speed))"),
          ("Consul", "thousands", "no rate; ours was 2.1 times it with 32 in flight ([page](stores/consul.md#speed))"),
          ("a database", "hundreds", "13,800 with 256 in flight ([MySQL](stores/mysql.md#speed))")]


def median(peer, figure):
    values = peer["figures"].get(figure)
    return statistics.median(values) if values else None


def spread(peer, figure):
    """Half the distance of the extremes, as a part of the median."""
    values = peer["figures"].get(figure)
    middle = statistics.median(values) if values else 0
    return (max(values) - min(values)) / 2 / middle if middle else 0


def number(value, digits=0):
    return "-" if value is None else f"{value:,.{digits}f}"


def rate(peer, figure, digits=0, scale=1):
    """The median of the rounds with its spread."""
    value = median(peer, figure)
    return "-" if value is None else f"{value / scale:,.{digits}f} ±{spread(peer, figure):.0%}"


def of_store(facts, store):
    return [peer for peer in facts["peers"] if peer["store"] == store and peer["figures"]]


def grown(peer, figure):
    value = median(peer, figure)
    return value if value and value > 0 else None


def own_of(peers):
    return [callers for callers in OWN if any(median(peer, f"own {callers}") for peer in peers)]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def tables_of(facts, store):
    peers = of_store(facts, store)
    own = own_of(peers)
    yield table(["pairs per second, own names"] + [f"{callers:,} caller{'s' * (callers > 1)}" for callers in own] +
                ["new names, 16"],
                [[peer["name"]] + [rate(peer, f"own {callers}") for callers in own] +
                 [rate(peer, "new 16")] for peer in peers])
    yield table(["one name", "16 callers", "p99 of a pair, ms", "longest wait, ms", "largest share / smallest",
                 "16 processes", "longest wait, ms"],
                [[peer["name"], rate(peer, "hot 16"), rate(peer, "hot 16 p99_us", 1, 1000),
                  rate(peer, "hot 16 longest_wait_us", 1, 1000),
                  rate(peer, "hot 16 spread", 1), rate(peer, "hot 16 processes"),
                  rate(peer, "hot 16 processes longest_wait_us", 1, 1000)]
                 for peer in peers])
    yield table(["cost", "p50, us (1 caller)", "p99, us (16)", "client CPU, us a pair (16)",
                 "server CPU, us a pair (16)", "bytes a held lock", "take-over after `kill -9`, leases"],
                [[peer["name"], rate(peer, "own 1 p50_us"), rate(peer, "own 16 p99_us"),
                  rate(peer, "own 16 client_cpu_us", 1), rate(peer, "own 16 server_cpu_us", 1),
                  rate(peer, "bytes a lock") if grown(peer, "bytes a lock") else "-",
                  rate(peer, "take over leases", 2)]
                 for peer in peers])


def tables(facts):
    return "\n".join(f"{STORES[store]}\n\n" + "\n".join(tables_of(facts, store))
                     for store in STORES if of_store(facts, store))


def best(peers, figure):
    known = [peer for peer in peers if median(peer, figure)]
    return max(known, key=lambda peer: median(peer, figure), default=None)


def rivals(peers, figure, pick):
    """Ours and the others' that `pick` takes, or None."""
    return [pick([peer for peer in peers if peer["ours"] == ours], figure) for ours in (True, False)]


FIGURES = [(f"own {callers}", f"{callers:,} callers on names of their own" if callers > 1 else "1 caller") for callers in OWN] + [
    ("new 16", "16 callers, a new name each time"), ("hot 16", "16 callers on one name"),
    ("hot 16 processes", "16 processes on one name")]


def comparisons(facts):
    """(ratio, sentence) of each figure: our better form beside the best peer."""
    for store, title in STORES.items():
        peers = of_store(facts, store)
        for figure, words in FIGURES:
            ours, other = rivals(peers, figure, best)
            if ours and other:
                ratio = median(ours, figure) / median(other, figure)
                yield ratio, (f"{title}, {words}: {other['name']} {rate(other, figure)}, "
                              f"{ours['name']} {rate(ours, figure)}: ratio {ratio:.2f}")


# Figures of which less is better: (figure, words, digits).
COSTS = [*((f"own {callers} {part}_us", f"{part} of a pair in us, {callers:,} caller{'s' * (callers > 1)}", 0)
           for part in ("p50", "p99") for callers in OWN),
         ("hot 16 p99_us", "p99 of a pair in us, 16 callers on one name", 0),
         ("hot 16 longest_wait_us", "longest wait in us, 16 callers on one name", 0),
         ("hot 16 processes longest_wait_us", "longest wait in us, 16 processes on one name", 0),
         ("own 16 client_cpu_us", "client's CPU for a pair in us, 16 callers", 1),
         ("own 16 server_cpu_us", "server's CPU for a pair in us, 16 callers", 1),
         ("bytes a lock", "bytes of a held lock", 0), ("take over leases", "take-over in leases", 2)]


def least(peers, figure):
    known = [peer for peer in peers if (median(peer, figure) or 0) > 0]
    return min(known, key=lambda peer: median(peer, figure), default=None)


def costs(facts):
    """(ratio, sentence) as comparisons(), above 1 where ours costs less."""
    for store, title in STORES.items():
        peers = of_store(facts, store)
        for figure, words, digits in COSTS:
            ours, other = rivals(peers, figure, least)
            if ours and other:
                ratio = median(other, figure) / median(ours, figure)
                yield ratio, (f"{title}, {words}: {other['name']} {number(median(other, figure), digits)}, "
                              f"{ours['name']} {number(median(ours, figure), digits)}")


# What this project asks of itself, as (words, asked, the value of facts). A value is a ratio of pairs per second
# where nothing else is said.
BLOCKING = ("redsync", "bsm/redislock", "redis-py", "Redisson, plain", "Redisson, fair", "Redisson, fenced")
UNFAIR = ("rslock", "redsync", "bsm/redislock", "node-redlock", "redis-py", "Redisson, plain",
          "Redisson, asynchronous", "Redisson, fenced")
CURATOR = ("Curator, InterProcessMutex", "Curator, InterProcessSemaphoreMutex")


def of_best(store, figure, others, ours=("Holdfast, async", "Holdfast, threads")):
    """Ours against the best of these others, as a function of facts."""

    def value(facts):
        peers = of_store(facts, store)
        mine = best([peer for peer in peers if peer["name"] in ours], figure)
        other = best([peer for peer in peers if peer["name"] in others], figure)
        return median(mine, figure) / median(other, figure) if mine and other else None

    return value


def of_bare_redis(facts):
    mine = best([peer for peer in of_store(facts, "redis") if peer["ours"]], "own 256")
    bare = facts["bare_redis"]
    return median(mine, "own 256") / bare["safe_pairs"] if mine and bare else None


def figure_of(store, name, figure, scale):
    def value(facts):
        found = [median(peer, figure) for peer in of_store(facts, store) if peer["name"] == name]
        return found[0] / scale if found and found[0] else None

    return value


AIMS = [
    *((f"Redis, asynchronous, {callers:,} in flight, to rslock", 1.0,
       of_best("redis", f"own {callers}", ("rslock",), ("Holdfast, async",))) for callers in OWN[1:]),
    ("Redis, 256 callers, to `redis-benchmark -P 16` of the shortest safe pair of scripts", 0.9, of_bare_redis),
    ("Redis, 1 caller, to redsync", 1.0, of_best("redis", "own 1", ("redsync",))),
    *((f"Redis, {callers} threads, to the best client of threads or goroutines", 1.2,
       of_best("redis", f"own {callers}", BLOCKING, ("Holdfast, threads",))) for callers in (16, 64)),
    ("Redis, 256 threads, thousand pairs per second", 45, figure_of("redis", "Holdfast, threads", "own 256", 1000)),
    ("Redis, 16 callers on one name, to the fastest client without a queue", 1.0, of_best("redis", "hot 16", UNFAIR)),
    ("Redis, 16 callers on one name, to Redisson's fair lock", 10, of_best("redis", "hot 16", ("Redisson, fair",))),
    ("ZooKeeper, 16 callers on one name, to Curator", 1.5, of_best("zookeeper", "hot 16", CURATOR)),
    ("ZooKeeper, 16 callers, new names, to Curator", 1.5, of_best("zookeeper", "new 16", CURATOR)),
    ("etcd, 16 callers on one name, to its package", 4, of_best("etcd", "hot 16", ("etcd's concurrency package",))),
    ("Consul, 16 callers on one name, to its API", 2, of_best("consul", "hot 16", ("Consul's API",))),
    ("ZooKeeper, 1 caller, to Curator", 1.1, of_best("zookeeper", "own 1", CURATOR)),
    ("etcd, 1 caller, to its package", 1.1, of_best("etcd", "own 1", ("etcd's concurrency package",))),
]


def quickest_pair(facts):
    """One caller's pair, in pairs of bare round trips."""
    mine = least([peer for peer in of_store(facts, "redis") if peer["ours"]], "own 1 p50_us")
    bare = facts["bare_redis"]
    return median(mine, "own 1 p50_us") / bare["pair_us"] if mine and bare else None


def dearest_lock(store):
    def value(facts):
        grown_by = [grown(peer, "bytes a lock") for peer in of_store(facts, store) if peer["ours"]]
        return max((bytes_ for bytes_ in grown_by if bytes_), default=None)

    return value


AT_MOST = [("etcd, 16 callers on one name, p99 of a pair in ms, at most", 60,
            figure_of("etcd", "Holdfast, threads", "hot 16 p99_us", 1000)),
           ("Redis, 1 caller, p50 of a pair to two bare round trips, at most", 1.1, quickest_pair),
           *((f"{title}, resident bytes for each of 2,000 held locks, the dearer form, at most", 1024,
              dearest_lock(store)) for store, title in STORES.items())]

# Aims that need no peer, with what the page of a link says: (words, asked, reached, whether it is missed).
ELSEWHERE = [
    ("Redis, renewals of 100,000 leases, part of a core at the client ([page](stores/redis.md#speed))", "10 %", "1.5 %", ""),
    ("Redis, the same at the server ([page](stores/redis.md#speed))", "10 %", "6.4 %", ""),
    ("SQLite, pairs through `Mutex` to a bare loop ([page](stores/sqlite.md#speed))", "0.9", "0.72 to 0.80", "missed"),
    ("Bytes of the heap for each held lock, stores of one kind ([page](guide/choosing.md#which-store))", "1,024",
     "510 to 1,000", ""),
    ("The same, stores that are made of others ([page](guide/choosing.md#which-store))", "1,024", "1,260 to 2,200",
     "missed"),
    ("Bytes of the lock machine for each of a million plain held locks ([page](design/0076-machine-memory.md))", "250",
     "247", ""),
]


def aims(facts):
    rows = [(words, asked, value(facts), 1) for words, asked, value in AIMS]
    rows += [(words, asked, value(facts), -1) for words, asked, value in AT_MOST]
    return table(["aim", "asked", "reached", ""],
                 [[words, f"{asked:g}", number(value, 2),
                   "missed" if value is not None and (value - asked) * sign < 0 else ""]
                  for words, asked, value, sign in rows])


def chart(facts, store, title, lines):
    """A figure against callers, both logarithmic, as SVG; readable on white and on black. `lines` gives
    [(figure, dashes)] for a number of callers: one line each for every peer."""
    peers = [peer for peer in of_store(facts, store) if median(peer, "own 16")]
    own = own_of(peers)
    values = [median(peer, figure) for peer in peers for callers in own for figure, _ in lines(callers)]
    values = [value for value in values if value]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    height, left, top, bottom = 380, 90, 40, 50
    right = 54 + 8 * max(len(peer["name"]) for peer in peers)  # For the longest name.
    width = left + 440 + right

    def x(callers):
        return left + (width - left - right) * math.log2(callers) / math.log2(own[-1])

    def y(value):
        return height - bottom - (height - top - bottom) * (math.log10(value) - low) / max(1, high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
           f'font-family="sans-serif" font-size="13">',
           f'<title>{STORES[store]}: {title}, against callers</title>',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="{left}" y="22" font-size="15" fill="#222222">{STORES[store]}: {title}</text>']
    for power in range(low, high + 1):
        at = y(10 ** power)
        out.append(f'<line x1="{left}" y1="{at:.1f}" x2="{width - right}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#444444">'
                   f'{10 ** power:,}</text>')
    for callers in own:
        out.append(f'<text x="{x(callers):.1f}" y="{height - bottom + 20}" text-anchor="middle" '
                   f'fill="#444444">{callers:,}</text>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 10}" text-anchor="middle" '
               'fill="#444444">callers at once, each on a name of its own</text>')
    for index, peer in enumerate(peers):
        colour, thick = COLOURS[index % len(COLOURS)], 3 if peer["ours"] else 1.5
        for which, (_, dashes) in enumerate(lines(own[0])):
            points = [(x(callers), median(peer, lines(callers)[which][0])) for callers in own]
            line = " ".join(f"{px:.1f},{y(value):.1f}" for px, value in points if value)
            out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{thick}"'
                       f'{dashes}/>')
        row = top + 18 * index
        out.append(f'<line x1="{width - right + 14}" y1="{row}" x2="{width - right + 38}" y2="{row}" '
                   f'stroke="{colour}" stroke-width="{thick}"/>')
        out.append(f'<text x="{width - right + 44}" y="{row + 4}" fill="#222222">{peer["name"]}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def charts(facts, store):
    """{file name: SVG}"""
    return {f"{store}.svg": chart(facts, store, "acquire and release, pairs per second",
                                  lambda callers: [(f"own {callers}", "")]),
            f"{store}-latency.svg": chart(facts, store, "time of a pair in us, p50 solid, p99 dashed",
                                          lambda callers: [(f"own {callers} p50_us", ""),
                                                           (f"own {callers} p99_us", ' stroke-dasharray="5 4"')])}


def reached_of(facts, store):
    """The best figures on names of their own: ours, and the others'."""
    cells = []
    for ours in (True, False):
        known = [(median(peer, f"own {callers}") or 0, callers, peer["name"])
                 for peer in of_store(facts, store) if peer["ours"] == ours for callers in OWN]
        value, callers, name = max(known, default=(0, 0, ""))
        cells.append(f"{value:,.0f} ({name}, {callers:,} callers)" if value else "-")
    return tuple(cells)


def claims(facts):
    reached = {title: reached_of(facts, store) for store, title in STORES.items() if of_store(facts, store)}
    redis = facts["bare_redis"] and f"{facts['bare_redis']['pairs']:,.0f} (`redis-benchmark`, below)"
    return table(["store", "articles, operations per second", "Holdfast, pairs per second",
                  "best other client, pairs per second", "the server alone, pairs per second"],
                 [[store, claim, *reached.get(store, ("not measured here", "-")), bare or redis or "-"]
                  for store, claim, bare in CLAIMS])


def beside_bare_redis(facts):
    """What redis-benchmark reaches on the same server, and what ours is of it."""
    bare, ours = facts["bare_redis"], [peer for peer in of_store(facts, "redis") if peer["ours"]]
    out = [f"`redis-benchmark -P 16` reaches {bare['safe_pairs']:,.0f} pairs per second on this machine with the shortest "
           "scripts that are safe: one sets a name and mints a token, the other compares and deletes. Plain commands are no "
           f"lock: `redis-benchmark -c 256 -P 16` reaches {bare['pairs']:,.0f} pairs of `SET NX PX` and `DEL`. "]
    fastest = best(ours, "own 256")
    if fastest:
        rate = median(fastest, "own 256")
        out.append(f"{fastest['name']} with 256 callers reaches {rate / bare['safe_pairs']:.2f} of the first and "
                   f"{rate / bare['pairs']:.2f} of the second. ")
    out.append(f"One caller's two bare requests take {bare['pair_us']:,.0f} us (p50, `redis-benchmark -c 1`). ")
    times = [median(peer, "own 1 p50_us") for peer in ours if median(peer, "own 1 p50_us")]
    if times:
        out.append(f"A pair of our quicker form takes {min(times) / bare['pair_us']:.2f} of that: a blocking caller looks for "
                   "its answer for a moment before it sleeps ([why](design/0058-brief-spin.md)).")
    return "".join(out).rstrip()


def write(facts, path):
    machine, ranked = facts["machine"], sorted(comparisons(facts))
    behind = [words for ratio, words in ranked if ratio < 1]
    ahead = [words for ratio, words in reversed(ranked) if ratio >= 1]
    out = ["# Performance", "",
           "This page compares Holdfast with the locks of other clients on the same servers. `make bench-peers` "
           "wrote it. A pair is one acquisition and its release.", "",
           "## Where another client is faster", ""]
    out += [f"- {words}." for words in behind] or ["In no figure of this run."]
    dear = [words for ratio, words in sorted(costs(facts)) if ratio < 1]
    out += ["", "Another client needs less here:", ""] + ([f"- {words}." for words in dear] or ["Nothing."])
    out += ["", "## Where Holdfast is faster", ""] + [f"- {words}." for words in ahead]
    out += ["", "## What we aim at", "", aims(facts).rstrip(), "",
            "These aims need no other client. Their figures are from other pages, measured on another day:", "",
            table(["aim", "asked", "reached", ""], [list(row) for row in ELSEWHERE]).rstrip()]
    out += ["", "No peer gives what Holdfast gives with every pair: a fencing token, a fair queue, and a "
            "holder that learns of a loss. Redisson's fair lock has the queue and its fenced lock the token; "
            "Curator, kazoo, and etcd's package have the queue.", ""]
    for store, title in STORES.items():
        if not of_store(facts, store):
            continue
        out += [f"## {title}", "", f"![Pairs per second on {title} against callers]"
                f"(performance/{store}.svg)", "", f"![Time of a pair on {title} against callers]"
                f"(performance/{store}-latency.svg)", ""]
        out += list(tables_of(facts, store))
    out += ["## What articles claim", "",
            "Articles give these rates for locks on each kind of store, mostly without machine or method. Beside "
            "them stand the best figures of this page, and what the server does without a lock.", ""]
    out += [claims(facts),
            "Except for Redis, the figure of the server alone is from the store's page, measured on another day on two "
            "cores. The pages of ZooKeeper, etcd and Consul have no rate of the server alone, but the ratio of ours to it in "
            "the same run. The pages of [PostgreSQL](stores/postgres.md#speed) and [SQLite](stores/sqlite.md#speed) have "
            "ratios, too.", ""]
    if facts["bare_redis"]:
        out += [beside_bare_redis(facts), ""]
    out += ["## How it was measured", "",
            f"Date: {machine['date']}. Machine: {machine['processors']} processors ({machine['model']}), Linux "
            f"{machine['kernel']}. Servers and clients share it, on the loopback interface.", "",
            f"Each figure is the median of {facts['rounds']} interleaved rounds of {facts['seconds']:g} seconds; "
            "± is half the distance between the extremes. Redis runs without persistence, "
            "ZooKeeper and Consul without forced writes, etcd as Debian packages it; each is one server. All data is "
            "in memory (`/dev/shm`), so a forced write costs nothing.", "",
            "The client's CPU is of its whole process. A take-over is counted from the kill of a holder whose "
            "lease is 3 s, in such leases. The holder has had the lock for a second and a half by then: a client that renews has a "
            "younger lease than one that does not. Consul ends a session one to two of its lengths after the last renewal. "
            "Memory is the growth of the client's resident set over 2,000 held locks: with threads, buffers and what the "
            "allocator keeps. The stores' pages tell what one more lock takes of the heap. "
            "'-' is no growth, as with a virtual machine that collects its garbage meanwhile.", "",
            table(["part", "version"], [[name, machine[name]] for name in
                                       ("redis", "zookeeper", "etcd", "consul", "java", "go", "node", "rust")] +
                  [[peer["name"], peer["version"]] for peer in facts["peers"]
                   if not peer["ours"] and not peer["missing"]])]
    out += not_measured(facts)
    path = Path(path)
    folder = path.parent / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    for store in STORES:
        if of_store(facts, store):
            for name, drawing in charts(facts, store).items():
                (folder / name).write_text(drawing, encoding="utf-8")
    path.write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")


# One paragraph for each generator of the comparison of ids, as its source has it.
IDS_DIFFER = {
    "Holdfast": "One atomic word holds time and sequence, and a compare-and-swap moves it: there is no lock. A full "
                "millisecond waits for the next one. Time never follows a clock that is set back. A worker number may "
                "be a lease, with a time that is reserved in the store before an id has it. A block gives one thread "
                "a run of ids. Segments give numbers of a counter; here the store answers in 5 ms.",
    "sonyflake": "A unit is 10 ms with 256 ids, and the machine's number has 16 bits. By default these are the lower "
                 "bits of the private IPv4 address. A mutex guards each id. The caller sleeps when the unit is full. "
                 "After a clock that is set back it counts on from the last time, and sleeps for the difference. "
                 "Bits and unit can be set.",
    "yitter": "It has 6 bits for the worker and 6 for the sequence by default, and one static lock. A full millisecond "
              "borrows the next one, up to 2,000 times. Then the caller spins with the lock until the clock has caught "
              "up. A clock that is set back uses reserved low sequence numbers for past milliseconds. The user "
              "chooses the worker's number.",
    "UidGenerator": "A unit is a second with 8,192 ids. Each start takes a new worker number from a table, for good. "
                    "The default generator spins with its lock until the next second, and throws after a clock that is "
                    "set back. The cached one fills a ring ahead with counted seconds, and reads no clock "
                    "after the start. An empty ring throws; the driver asks again. The driver sets the 29 bits of its README, "
                    "because the default's 28 bits ended in 2024.",
    "Leaf": "Its segments come from a row of MySQL. A tenth of a segment used starts the load of the next one. The "
            "step doubles up to 1,000,000 when a segment lasted less than 15 minutes. Its snowflake has Twitter's "
            "bits and a worker number from a sequential node of ZooKeeper. It waits for a clock that is back by up to "
            "5 ms, and else answers an error. A new millisecond begins below 100 at random.",
    "TinyID": "It gives segments alone. A server over MySQL hands them out by HTTP, and a client in Java keeps two. A "
              "fifth of a segment used starts the load of the next one. Several databases share the numbers by "
              "remainders.",
}
TWITTERS = "Twitter's bits"
# (words, figure, whether more is better). Each language reads the clock at a price of its own.
MEASURES = [("ids per second", "ids_per_s", True), ("p50 of a call without the clock's part, ns", "p50_ns", False),
            ("p99 of a call without the clock's part, ns", "p99_ns", False),
            ("p99.99 of a call, ns", "p9999_ns", False), ("longest call, ns", "max_ns", False),
            ("ahead of the clock, ms", "ahead_ms", False)]


def share_of_cap(peer):
    cap = median(peer, "cap")
    return f"{median(peer, 'ids_per_s') / cap:,.1%}" if cap else "-"


def tables_of_ids(facts):
    peers = [peer for peer in facts["peers"] if peer["figures"].get("ids_per_s")]
    rates = table(["generator", "layout", "cap of the layout, ids/s", "ids/s", "share of the cap",
                   "ahead of the clock, ms"],
                  [[peer["name"], f"`{peer['figures']['layout'][0]}`" if peer["figures"]["layout"][0] else "-",
                    number(median(peer, "cap")), rate(peer, "ids_per_s"), share_of_cap(peer),
                    number(median(peer, "ahead_ms"))] for peer in peers])
    times = table(["one call", "p50, ns", "p99, ns", "p99.99, us", "longest, ms", "the clock's part, ns"],
                  [[peer["name"], number(median(peer, "p50_ns")), number(median(peer, "p99_ns")),
                    number(median(peer, "p9999_ns") / 1e3, 1), number(median(peer, "max_ns") / 1e6, 1),
                    number(median(peer, "clock_ns"))] for peer in peers])
    return rates + "\n" + times


def compared_ids(facts):
    """(whether ours is ahead, sentence) of each figure: ours beside the best peer with the same bits."""
    same = [peer for peer in facts["peers"] if TWITTERS in peer["name"] and peer["figures"].get("ids_per_s")]
    ours = next((peer for peer in same if peer["ours"]), None)
    others = [peer for peer in same if not peer["ours"]]
    if ours is None or not others:
        return
    for words, figure, more in MEASURES:
        def value(peer):
            return median(peer, figure) - ("without the clock" in words) * median(peer, "clock_ns")
        other = (max if more else min)(others, key=value)
        mine, its = value(ours), value(other)
        if mine != its:
            yield (mine > its) == more, f"{words}: {ours['name']} {number(mine)}, {other['name']} {number(its)}"


def seen_ids(facts):
    """Sentences about calls that failed and ids that did not grow."""
    for peer in facts["peers"]:
        if median(peer, "refused"):
            yield f"{peer['name']}, threw at {number(median(peer, 'refused'))} calls of a round."
        if sum(peer["figures"].get("fell", [])):
            yield f"{peer['name']}, gave ids that were not above the one before."


def not_measured(facts):
    lines = [f"- {peer['name']}: {peer['missing']}." for peer in facts["peers"] if peer["missing"]]
    shrunk = [peer["name"] for peer in facts["peers"] if peer["figures"].get("bytes a lock") and not grown(peer, "bytes a lock")]
    lines += [f"- Bytes of a held lock, {'; '.join(shrunk)}: the process did not grow in the median of the rounds. Its virtual "
              "machine collected garbage meanwhile."] if shrunk else []
    lines += [f"- {STORES[store]}: {why}." for store, why in facts.get("skipped", {}).items()]
    lines += [f"- {peer['name']}, {len(peer['figures']['failures'])} of its figures in a round: {why}."
              for peer in facts["peers"] if peer["figures"].get("failures")
              for why in dict.fromkeys(peer["figures"]["failures"])]
    return ["Not measured:", "", *lines, ""] if lines else []


def write_ids(facts, path):
    machine, compared = facts["machine"], list(compared_ids(facts))
    behind, ahead = ([words for won, words in compared if won == wanted] for wanted in (False, True))
    out = ["# Performance of ids", "",
           "This page compares the id generators of Holdfast with others, each in its own language. "
           "`make bench-peers-ids` wrote it.", "",
           "A layout is a cap: its sequence gives so many ids in a unit of time. Then a generator waits, or takes ids "
           "of the future. So a rate counts together with how far ahead of the clock its ids are, and with the "
           "longest call.", "",
           "## The same bits", "",
           "Each line has Holdfast with Twitter's bits, and the best of the others with these bits.", "",
           "A peer is better in:", ""]
    out += [f"- {words}." for words in behind] or ["- no figure of this run."]
    out += ["", "Holdfast is better in:", ""] + ([f"- {words}." for words in ahead] or ["- no figure of this run."])
    out += ["", "With these bits one call in 4,096 waits for the next millisecond, so p99.99 shows the wait of a generator "
            "that fills each one. A slower one fills none, and need not wait. yitter takes ids of the future instead, "
            "and then makes up for it by one long call.", "",
            "## All", "", tables_of_ids(facts),
            "One thread asks as fast as it can; the line with blocks has two threads, each with a block. A call's "
            "time therefore includes the wait for the next unit. It also includes the clock's part.", ""]
    seen = list(seen_ids(facts))
    out += [" ".join(seen), ""] if seen else []
    out += ["## How they differ", ""]
    for name, words in IDS_DIFFER.items():
        out += [f"**{name}.** {words}", ""]
    out += ["## How it was measured", "",
            f"Date: {machine['date']}. Machine: {machine['processors']} processors ({machine['model']}), Linux "
            f"{machine['kernel']}. Before the rounds its load was {min(facts['loads']):.1f} to "
            f"{max(facts['loads']):.1f}; the generators are one or two of it.", "",
            f"Each figure is the median of {facts['rounds']} interleaved rounds; ± is half the distance between the "
            f"extremes. A round asks for {facts['seconds']:g} seconds without a look at the clock for each id, and as "
            "long with one. A lead over the clock is the greatest of a round. A rate may have up to 1,024 ids too many: "
            "the drivers look at the clock that seldom, so a small cap can seem passed.", "",
            table(["part", "version"], [[name, machine[name]] for name in ("java", "go")] +
                  sorted({(peer["name"].split(",")[0], peer["version"]) for peer in facts["peers"]
                          if not peer["ours"] and not peer["missing"]}))]
    out += not_measured(facts)
    Path(path).write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")
