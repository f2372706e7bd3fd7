"""The manners of this tree that a machine can see. Usage: check_tidy.py ROOT

Lines to 100 columns, functions to 70 lines, files to 700; every _test.cc is registered; the lab
names no kind of store; parts of a lease come from one schedule; nothing above the stores asks
which one it is; comments open with a subject; folders of src have at most 40 files; one H1 per
markdown file and no dead relative link; no leftover; no path of somebody's machine and no address
of a package mirror.
"""

import re
import sys
from collections import Counter
from pathlib import Path
from urllib.parse import unquote

import source_tree

MAX_COLUMNS = 100
MAX_FUNCTION_LINES = 70
MAX_FILE_LINES = 700
MAX_FILES = 40  # Of a folder in src: a larger one gets folders by topic.

CODE = (".h", ".cc")
TEXT = CODE + (".py", ".txt", ".cmake", ".md", ".json", ".in", ".toml", ".1", ".bash", ".fish", ".sh")
# Named here in pieces, so that this file does not accuse itself.
LEFTOVER = re.compile(r"\b(" + "FIX" + r"ME|TO" + r"DO|XX" + r"X)\b")
MACHINE_PATH = re.compile(
    r"(?<![\w.$}>~-])/(" + "wo" + r"rk|ro" + r"ot|ho" + r"me/[a-z]\w*|tmp/" + r"hf)/\w")
MIRROR = re.compile(r"\bdeb\.debian" + r"\.org|ftp\.[a-z.]*debian\.org|\bmirror[s]?\.[a-z]+\.|"
                    r"archive\.ubuntu|security\.debian" + r"\.org|://[^ /]*(artifactory|nexus)",
                    re.IGNORECASE)
# No function header: a namespace, a type, an enumeration, an array.
NOT_A_FUNCTION = re.compile(r"^\s*(namespace|extern|class|struct|enum|union|typedef)\b|=\s*$")


def check_columns(path, lines):
    return [f"{path}:{n}: {len(line)} columns, more than {MAX_COLUMNS}"
            for n, line in enumerate(lines, 1)
            if len(line) > MAX_COLUMNS and "http" not in line and "](" not in line]


def check_whitespace(path, lines):
    return [f"{path}:{n}: a tab or a space at the end of the line" for n, line in
            enumerate(lines, 1) if line != line.rstrip() or ("\t" in line and path.endswith(CODE))]


def check_size(path, lines):
    if len(lines) > MAX_FILE_LINES:
        return [f"{path}: {len(lines)} lines, more than {MAX_FILE_LINES}"]
    return []


def check_folders(paths):
    counts = Counter(str(Path(path).parent) for path in map(str, paths) if path.startswith("src/"))
    return [f"{folder}: {count} files, more than {MAX_FILES}: give its topics folders"
            for folder, count in sorted(counts.items()) if count > MAX_FILES]


def check_words(path, lines):
    problems = []
    for number, line in enumerate(lines, 1):
        for pattern, what in ((LEFTOVER, "an unfinished thing"), (MACHINE_PATH, "a machine's path"),
                              (MIRROR, "a package mirror")):
            match = pattern.search(line)
            if match:
                problems.append(f"{path}:{number}: {what}: '{match[0]}'")
    return problems


def function_lengths(text):
    """(first line, number of lines) of what looks like a function's body: a `{` that ends a line
    whose statement has parentheses, outside of other functions."""
    code = source_tree.strip_comments(text, keep_strings=False)
    found, open_blocks, statement, line = [], [], "", 1
    for char in code:
        if char == "\n":
            line += 1
        if char == "{":
            inside = any(block[1] for block in open_blocks)
            is_function = not inside and ")" in statement and not NOT_A_FUNCTION.search(statement)
            open_blocks.append((line, is_function))
            statement = ""
        elif char == "}":
            if open_blocks:
                first, is_function = open_blocks.pop()
                if is_function:
                    found.append((first, line - first + 1))
            statement = ""
        elif char == ";":
            statement = ""
        else:
            statement += char
    return found


def check_functions(path, text):
    return [f"{path}:{first}: a function of {length} lines, more than {MAX_FUNCTION_LINES}"
            for first, length in function_lengths(text) if length > MAX_FUNCTION_LINES]


def check_markdown(path, text, exists):
    """`exists(link)` says whether the file of a relative link is there."""
    problems = []
    prose = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    titles = len(re.findall(r"^# \S", prose, flags=re.MULTILINE))
    is_fragment = path.startswith("changes/") and path.count("/") > 1
    if titles != (0 if is_fragment else 1):
        problems.append(f"{path}: {titles} first-level headings"
                        + (" in a change fragment, which needs none" if is_fragment else ""))
    for link in re.findall(r"\]\(([^)\s]+)\)", re.sub(r"`[^`\n]*`", "", prose)):
        target = unquote(link.split("#")[0])
        if target and not re.match(r"[a-z]+:", link) and not exists(target):
            problems.append(f"{path}: dead link '{link}'")
    return problems


def check_store_names(path, text, stores):
    """The lab's own C++ knows no kind of store: that is what topology files are for. The lock service
    has the name of the house, which is everywhere."""
    folders = ("rig", "scenario", "runner", "nemesis", "program")
    if not path.startswith(tuple(f"lab/{folder}/" for folder in folders)) or "_test." in path:
        return []
    code = source_tree.strip_comments(text)
    return [f"{path}: names the store '{store}', which only lab/topologies may do"
            for store in stores if store != "holdfast"
            if re.search(rf'"{store}"|\b{store}[:_/\d]|\b{store.capitalize()}[A-Z]', code)]


# Folders whose comments are in plain words.
PLAIN = re.compile(r"(include|lab|bench|tests|examples|src)/")
COMMENT = re.compile(r"(?:^|\s)//\s?(.*)")
BARE = re.compile(r"(?:^|(?<=[.!?] ))(?:What|Who|Whose|Whom|Of|Those)\b[^?]*$")


def check_openings(path, lines):
    """Each sentence of a comment opens with its subject: no bare what, who, of or those."""
    if not PLAIN.match(path):
        return []
    problems, goes_on = [], False
    for number, line in enumerate(lines, 1):
        match = COMMENT.search(line)
        said = match[1].strip() if match else ""
        # A line in the middle of a sentence has no opening of its own.
        if BARE.search("and " + said if goes_on else said):
            problems.append(f"{path}:{number}: opens without its subject: {line.strip()[:60]}")
        goes_on = line.lstrip().startswith("//") and not said.endswith((".", "!", "?", ":"))
    return problems


# A comparison with a scheme or a store's name, where a capability of holdfast/stores.h would do. The
# places of journals, which no store opens, are the lock service's own.
SCHEME = r'(?:starts_with\(|compare\([^;"]*|find\(|[!=]= )"(?:%s):'
ABOVE_STORES = re.compile(r"src/(cli|client|ids|primitives|session)/(?!serve_command\.cc|.*_test\.cc)")


def check_capabilities(path, text, stores):
    """Above the stores, code asks what a store can do, and never which one it is."""
    if not ABOVE_STORES.match(path):
        return []
    code = source_tree.strip_comments(text)
    compared = re.search(SCHEME % "|".join(stores) + r'|->name [!=]= "', code)
    return [f"{path}: compares with a kind of store: '{compared[0]}'"] if compared else []


SCHEDULE = "holdfast/detail/renewal_schedule.h"
SCHEDULED = (*(f"src/session/{file}.cc" for file in (
                 "fsm/renewal_fsm", "fsm/acquire_fsm", "acquiring_prepare", "renewing_batches")),
             "src/stores/zookeeper/session/session_deadline.h",
             *(f"src/stores/{store}/guarantees.cc" for store in ("zookeeper", "etcd", "consul")),
             "src/stores/etcd/store_session.cc", "src/stores/consul/store_session.cc",
             *(f"src/stores/failover/{file}.cc" for file in ("guarantees", "keeper")),
             "src/stores/hybrid/filter.cc", "src/stores/etcd/journal/journal.cc",
             "src/stores/etcd/journal/members.cc", "src/stores/redis/recipes/recipe_backend.cc",
             "src/cli/run/run_plan.cc", "src/cli/guard/guard.cc")
# A part of a lease or session: `ttl / 3`, `Nanos(state.lease) * 2 / 3`.
PART_OF_A_LEASE = re.compile(r"(?i)\b\w*(authority|lease|ttl|length|granted|session)\w*(\(\))?\)?"
                             r"\s*(\*\s*\d+\s*)?/\s*(\d|k[A-Z])")


def check_schedule(path, text):
    """Parts of a lease come from RenewalSchedule, which has the proof that they fit together."""
    if path not in SCHEDULED:
        return []
    code = source_tree.strip_comments(text, keep_strings=False)
    problems = [f"{path}:{number}: '{match[0]}': ask {SCHEDULE} for a part of a lease"
                for number, line in enumerate(code.splitlines(), 1)
                for match in [PART_OF_A_LEASE.search(line)] if match]
    if not re.search(r"\bRenewalSchedule\b", code):
        problems.append(f"{path}: it must ask {SCHEDULE}")
    return problems


def check_registered(path, list_text):
    """`list_text`: the CMakeLists.txt in charge of the file, or None."""
    name = re.escape(Path(path).name)
    of_each_store = r"\$\{store\}" + name[name.find("_"):]
    if list_text is not None and re.search(rf"(?<![\w]){name}\b|{of_each_store}\b", list_text):
        return []
    return [f"{path}: not registered in a CMakeLists.txt"]


def nearest_list(root, path):
    for folder in path.parents:
        if (root / folder / "CMakeLists.txt").exists():
            return source_tree.read(root / folder / "CMakeLists.txt")
    return None


def check_tree(root):
    problems, looked_at = [f"{path}: it has gone: correct SCHEDULED" for path in SCHEDULED
                           if not (root / path).exists()], 0
    stores = [file.stem for file in (root / "lab/topologies").glob("*.toml")]
    paths = source_tree.files(root, TEXT, plain_names=True)
    problems += check_folders(paths)
    for path in paths:
        looked_at += 1
        text, name = source_tree.read(root / path), str(path)
        lines = text.splitlines()
        problems += check_words(name, lines) + check_whitespace(name, lines)
        if name.endswith(CODE):
            problems += check_columns(name, lines) + check_size(name, lines)
            problems += check_functions(name, text) + check_store_names(name, text, stores)
            problems += check_schedule(name, text) + check_openings(name, lines)
            problems += check_capabilities(name, text, stores)
        if name.endswith("_test.cc"):
            problems += check_registered(name, nearest_list(root, path))
        if name.endswith(".md"):
            problems += check_markdown(
                name, text, lambda link: ((root / path).parent / link).exists())
    return problems, looked_at


if __name__ == "__main__":
    source_tree.finish("tidy", *check_tree(Path(sys.argv[1])))
