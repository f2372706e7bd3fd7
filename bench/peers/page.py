"""docs/performance.md and its charts, made of the figures of bench/peers/run."""

import math
import statistics
from pathlib import Path

OWN = [1, 16, 64, 256]
STORES = {"redis": "Redis", "zookeeper": "ZooKeeper", "etcd": "etcd", "consul": "Consul"}
COLOURS = ["#0b6e4f", "#2f9e73", "#c1121f", "#e07a1f", "#5b5bd6", "#8d6a9f", "#3f88c5", "#7a7a7a",
           "#b08900", "#a23b72", "#4a4e69"]

# What articles say that a lock on each reaches, in operations per second.
CLAIMS = [("Redis", "100,000 and more"), ("ZooKeeper", "10,000 to 20,000"), ("etcd", "10,000 and more"),
          ("Consul", "thousands"), ("a database", "hundreds")]


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


def rate(peer, figure):
    value = median(peer, figure)
    return "-" if value is None else f"{value:,.0f} ±{spread(peer, figure):.0%}"


def of_store(facts, store):
    return [peer for peer in facts["peers"] if peer["store"] == store and peer["figures"]]


def table(head, rows):
    lines = ["| " + " | ".join(head) + " |", "|---|" + "---:|" * (len(head) - 1)]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def tables_of(facts, store):
    peers = of_store(facts, store)
    yield table(["pairs per second, own names"] + [f"{callers} caller{'s' * (callers > 1)}" for callers in OWN] +
                ["new names, 16"],
                [[peer["name"]] + [rate(peer, f"own {callers}") for callers in OWN] +
                 [rate(peer, "new 16")] for peer in peers])
    yield table(["one name", "16 callers", "longest wait, ms", "largest share / smallest",
                 "16 processes", "longest wait, ms"],
                [[peer["name"], rate(peer, "hot 16"),
                  number((median(peer, "hot 16 longest_wait_us") or 0) / 1000),
                  number(median(peer, "hot 16 spread"), 1), rate(peer, "hot 16 processes"),
                  number((median(peer, "hot 16 processes longest_wait_us") or 0) / 1000)]
                 for peer in peers])
    yield table(["cost", "p50, us (1 caller)", "p99, us (16)", "client CPU, us a pair (16)",
                 "server CPU, us a pair (16)", "bytes a held lock", "take-over after `kill -9`, s"],
                [[peer["name"], number(median(peer, "own 1 p50_us")),
                  number(median(peer, "own 16 p99_us")),
                  number(median(peer, "own 16 client_cpu_us"), 1),
                  number(median(peer, "own 16 server_cpu_us"), 1),
                  number(median(peer, "bytes a lock")), number(median(peer, "take over s"), 2)]
                 for peer in peers])


def tables(facts):
    return "\n".join(f"{STORES[store]}\n\n" + "\n".join(tables_of(facts, store))
                     for store in STORES if of_store(facts, store))


def best(peers, figure):
    known = [peer for peer in peers if median(peer, figure)]
    return max(known, key=lambda peer: median(peer, figure), default=None)


FIGURES = [(f"own {callers}", f"{callers} callers on names of their own" if callers > 1 else "1 caller") for callers in OWN] + [
    ("new 16", "16 callers, a new name each time"), ("hot 16", "16 callers on one name"),
    ("hot 16 processes", "16 processes on one name")]


def comparisons(facts):
    """(ratio, sentence) of each figure: our better form beside the best peer."""
    for store, title in STORES.items():
        peers = of_store(facts, store)
        for figure, words in FIGURES:
            ours = best([peer for peer in peers if peer["ours"]], figure)
            other = best([peer for peer in peers if not peer["ours"]], figure)
            if ours and other:
                ratio = median(ours, figure) / median(other, figure)
                yield ratio, (f"{title}, {words}: {other['name']} {rate(other, figure)}, "
                              f"{ours['name']} {rate(ours, figure)}: ratio {ratio:.2f}")


def chart(facts, store):
    """Pairs per second against callers, both logarithmic, as SVG; readable on white and on black."""
    peers = [peer for peer in of_store(facts, store) if median(peer, "own 16")]
    values = [median(peer, f"own {callers}") for peer in peers for callers in OWN]
    values = [value for value in values if value]
    low, high = math.floor(math.log10(min(values))), math.ceil(math.log10(max(values)))
    width, height, left, top, right, bottom = 760, 380, 70, 40, 250, 50

    def x(callers):
        return left + (width - left - right) * math.log2(callers) / math.log2(OWN[-1])

    def y(value):
        return height - bottom - (height - top - bottom) * (math.log10(value) - low) / max(1, high - low)

    out = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img" '
           f'font-family="sans-serif" font-size="13">',
           f'<title>Pairs per second on {STORES[store]} against callers</title>',
           f'<rect width="{width}" height="{height}" fill="#ffffff"/>',
           f'<text x="{left}" y="22" font-size="15" fill="#222222">{STORES[store]}: acquire and release, '
           'pairs per second</text>']
    for power in range(low, high + 1):
        at = y(10 ** power)
        out.append(f'<line x1="{left}" y1="{at:.1f}" x2="{width - right}" y2="{at:.1f}" stroke="#dddddd"/>')
        out.append(f'<text x="{left - 8}" y="{at + 4:.1f}" text-anchor="end" fill="#444444">'
                   f'{10 ** power:,}</text>')
    for callers in OWN:
        out.append(f'<text x="{x(callers):.1f}" y="{height - bottom + 20}" text-anchor="middle" '
                   f'fill="#444444">{callers}</text>')
    out.append(f'<text x="{(left + width - right) / 2:.0f}" y="{height - 10}" text-anchor="middle" '
               'fill="#444444">callers at once, each on a name of its own</text>')
    for index, peer in enumerate(peers):
        points = [(x(callers), y(median(peer, f"own {callers}"))) for callers in OWN
                  if median(peer, f"own {callers}")]
        colour, thick = COLOURS[index % len(COLOURS)], 3 if peer["ours"] else 1.5
        line = " ".join(f"{px:.1f},{py:.1f}" for px, py in points)
        out.append(f'<polyline points="{line}" fill="none" stroke="{colour}" stroke-width="{thick}"/>')
        row = top + 18 * index
        out.append(f'<line x1="{width - right + 14}" y1="{row}" x2="{width - right + 38}" y2="{row}" '
                   f'stroke="{colour}" stroke-width="{thick}"/>')
        out.append(f'<text x="{width - right + 44}" y="{row + 4}" fill="#222222">{peer["name"]}</text>')
    return "\n".join(out + ["</svg>"]) + "\n"


def write(facts, path):
    machine, ranked = facts["machine"], sorted(comparisons(facts))
    behind = [words for ratio, words in ranked if ratio < 1]
    ahead = [words for ratio, words in reversed(ranked) if ratio >= 1]
    out = ["# Performance", "",
           "This page compares Holdfast with the locks of other clients on the same servers. `make bench-peers` "
           "wrote it. A pair is one acquisition and its release.", "",
           "## Where another client is faster", ""]
    out += [f"- {words}." for words in behind] or ["In no figure of this run."]
    out += ["", "## Where Holdfast is faster", ""] + [f"- {words}." for words in ahead]
    out += ["", "No peer gives what Holdfast gives with every pair: a fencing token, a fair queue, and a "
            "holder that learns of a loss. Redisson's fair lock has the queue and its fenced lock the token; "
            "Curator, kazoo, and etcd's package have the queue.", ""]
    for store, title in STORES.items():
        if not of_store(facts, store):
            continue
        out += [f"## {title}", "", f"![Pairs per second on {title} against callers]"
                f"(performance/{store}.svg)", ""]
        out += list(tables_of(facts, store))
    out += ["## What articles claim", "",
            "Articles give these rates for locks on each kind of store, mostly without machine or method. Beside "
            "them stands the best figure of this page.", ""]
    reached = {title: best(of_store(facts, store), "own 256") for store, title in STORES.items()}
    out.append(table(["store", "articles, operations per second", "here, pairs per second"],
                     [[store, claim, rate(reached[store], "own 256") + f" ({reached[store]['name']})"
                       if reached.get(store) else "not measured"] for store, claim in CLAIMS]))
    if facts["bare_redis"]:
        out += [f"`redis-benchmark -c 256 -P 16` reaches {facts['bare_redis']:,.0f} pairs of a bare `SET NX PX` and "
                "a `DEL` per second on this machine, with 16 requests in each batch and no lock.", ""]
    out += ["## How it was measured", "",
            f"Date: {machine['date']}. Machine: {machine['processors']} processors ({machine['model']}), Linux "
            f"{machine['kernel']}. Servers and clients share it, on the loopback interface.", "",
            f"Each figure is the median of {facts['rounds']} interleaved rounds of {facts['seconds']:g} seconds; "
            "± is half the distance between the extremes. Redis runs without persistence, ZooKeeper and Consul "
            "without forced writes, etcd as Debian packages it; each is one server.", "",
            "The client's CPU is of its whole process. A take-over is counted from the kill of a holder whose "
            "lease is 3 s. Memory is the growth of the client's resident set over 2,000 held locks.", "",
            table(["part", "version"], [[name, machine[name]] for name in
                                       ("redis", "etcd", "java", "go", "node", "rust")] +
                  [[peer["name"], peer["version"]] for peer in facts["peers"]
                   if not peer["ours"] and not peer["missing"]])]
    missing = [peer for peer in facts["peers"] if peer["missing"]]
    if missing:
        out += ["Not measured:", ""] + [f"- {peer['name']}: {peer['missing']}." for peer in missing] + [""]
    path = Path(path)
    folder = path.parent / "performance"
    folder.mkdir(parents=True, exist_ok=True)
    for store in STORES:
        if of_store(facts, store):
            (folder / f"{store}.svg").write_text(chart(facts, store), encoding="utf-8")
    path.write_text("\n".join(out).rstrip() + "\n", encoding="utf-8")
