"""Fails on an include that tests/architecture/layers.txt does not allow.

Also: the machine may not observe the outside world, and public headers stay free of third
parties. Usage: check_layers.py ROOT
"""

import re
import sys
from pathlib import Path

import source_tree

INCLUDE = re.compile(r'^\s*#\s*include\s*([<"])([^>"]+)[>"]')
SUFFIXES = (".h", ".cc")

# Standard headers through which the machine could see a clock, a thread, chance or a file. (chrono
# gives it durations; the tokens below keep it from the clocks.)
MACHINE_BANNED_HEADERS = set("""
    atomic condition_variable ctime cstdio cstdlib filesystem fstream future iostream istream mutex
    ostream random semaphore shared_mutex sstream stop_token thread unordered_map unordered_set
    barrier latch csignal
    """.split())
MACHINE_BANNED_TOKENS = re.compile(
    r"\b(system_clock|steady_clock|high_resolution_clock|clock_gettime|gettimeofday|std::thread|"
    r"std::jthread|std::mutex|random_device|std::rand|mt19937|uniform_int_distribution|std::cout|"
    r"std::cerr|std::cin|printf|fopen|getenv|asio|sleep_for|sleep_until|std::time|thread_local)\b")
# What the machine may say aloud before it aborts on a broken invariant.
MACHINE_LAST_WORDS = re.compile(r"\bstd::fprintf\(stderr,|\bstd::fputs\(|\bstd::abort\(")
MACHINE_MAY_ABORT = {"cstdio", "cstdlib"}

STANDARD_HEADER = re.compile(r"^[a-z_0-9]+$")
SYSTEM_HEADER = re.compile(r"^(sys|linux|netinet|arpa)/[a-z_0-9]+\.h$|^[a-z_0-9]+\.h$")


def read_table(path):
    table = {}
    for number, line in enumerate(source_tree.read(path).splitlines(), 1):
        line = line.split("#")[0].strip()
        if not line:
            continue
        layer, colon, allowed = line.partition(":")
        if not colon:
            raise SystemExit(f"{path}:{number}: expected 'layer: may include ...'")
        table[layer.strip()] = set(allowed.split())
    for layer, allowed in table.items():
        for other in allowed - set(table) - {"*"}:
            raise SystemExit(f"{path}: layer '{layer}' may include an unknown '{other}'")
    return table


def layer_of(path, table):
    """The layer of a source file or of an include path; None: not one of ours."""
    if path.startswith("holdfast/") or path.startswith("include/holdfast/"):
        return "public"
    if not path.startswith(("src/", "lab/", "tests/support/")):
        return None
    folders = path.removeprefix("src/").split("/")[:-1]
    while folders:
        layer = "/".join(folders)
        any_of_them = "/".join(folders[:-1] + ["*"])
        if any_of_them in table:
            table.setdefault(layer, table[any_of_them])
        if layer in table:
            return layer
        folders.pop()
    return "?"


def is_test(path):
    """Tests may include what they like."""
    return re.search(r"_(test|bench|fuzz|sim|mutants?)\.cc$|_testing\.h$|(^|/)test_\w+\.(h|cc)$|"
                     r"/testing/", path) is not None


def check_include(path, number, bracket, target, layer, table):
    own = layer_of(target, table)
    if bracket == '"' and own is None:
        return [f"{path}:{number}: write includes from the root: 'src/...' or 'holdfast/...', "
                f"not '{target}'"]
    if own is not None:
        if own == "?":
            return [f"{path}:{number}: '{target}' is in no layer of layers.txt"]
        if own != layer and not table[layer] & {own, "*"}:
            return [f"{path}:{number}: layer '{layer}' may not include '{target}' ({own})"]
        return []
    if target == "asio/steady_timer.hpp" and path.startswith("src/"):
        return [f"{path}:{number}: this timer stands still in suspend: use src/port/boot_timer.h"]
    # What stands on Asio says so by its name, so that other headers do not come to include it.
    of_asio = path.split("/")[-1].startswith("asio")
    if layer == "public" and not STANDARD_HEADER.match(target) and not of_asio:
        return [f"{path}:{number}: a public header may not include '<{target}>'"]
    if layer == "machine":
        if not STANDARD_HEADER.match(target) or (
                target in MACHINE_BANNED_HEADERS - MACHINE_MAY_ABORT):
            return [f"{path}:{number}: the machine layer may not include '<{target}>'"]
    return []


def check_file(path, text, table):
    """The problems of one source file; `path` decides its layer."""
    layer = layer_of(path, table)
    if layer in (None, "?"):
        return [f"{path}: no layer of layers.txt holds this file"]
    problems = []
    code = source_tree.strip_comments(text)
    for number, line in enumerate(code.splitlines(), 1):
        match = INCLUDE.match(line)
        if match:
            problems += check_include(path, number, match[1], match[2], layer, table)
        elif layer == "machine":
            token = MACHINE_BANNED_TOKENS.search(MACHINE_LAST_WORDS.sub("", line))
            if token:
                problems.append(f"{path}:{number}: the machine layer may not observe the outside "
                                f"world ({token[0]})")
    return problems


def check_tree(root):
    """(problems, number of files looked at) of src/, lab/ and include/; tests may include all."""
    table = read_table(root / "tests/architecture/layers.txt")
    problems, looked_at = [], 0
    for path in source_tree.files(root, SUFFIXES, under=("src", "lab", "include")):
        if is_test(str(path)):
            continue
        looked_at += 1
        problems += check_file(str(path), source_tree.read(root / path), table)
    return problems, looked_at


if __name__ == "__main__":
    source_tree.finish("layers", *check_tree(Path(sys.argv[1])))
