"""The manual and docs/cli.md repeat the help pages. This writes those blocks of both files.

A block begins at a line with `BEGIN kind` and ends at the next line with `END`.
"""

import re


def is_option(line):
    """An option, or a word of the command itself with its arguments (`  verify FOLDER`)."""
    return re.match(r"  (-|[A-Z]+  |[a-z-]+( [A-Z-]+)*(  |$))", line) is not None


def blocks_of(page):
    """(kind, lines) for each block of a help page: usage, heading, text, option or example."""
    examples = False
    found = []
    for part in page.strip("\n").split("\n\n"):
        lines = part.split("\n")
        if not found:
            found.append(("usage", lines))
            continue
        if not lines[0].startswith(" ") and len(lines) > 1 and lines[1].startswith("  "):
            found.append(("heading", lines[:1]))
            examples = lines[0].startswith("Example")
            lines = lines[1:]
        if examples or (lines[0].startswith("  ") and re.search(r"\S {3,}\S.* {3,}", lines[0])
                        and not is_option(lines[0])):
            found.append(("example", lines))
        elif is_option(lines[0]):
            for line in lines:
                if line.startswith("   "):
                    found[-1][1].append(line)
                else:
                    found.append(("option", [line]))
        else:
            found.append(("text", lines))
    return found


def split_option(lines):
    """The names of an option, and what the page says about it."""
    names, _, first = lines[0].strip().partition("  ")
    return names, " ".join(" ".join([first, *lines[1:]]).split())


def roff(text):
    text = text.replace("\\", "\\e").replace("-", "\\-")
    return "\\&" + text if text.startswith((".", "'")) else text


def filled(lines):
    return [roff(line.strip()) for line in lines if line.strip()]


def manual_of(name, page):
    out = [f".SS {name}"]
    for kind, lines in blocks_of(page):
        if kind == "heading":
            out += [".PP", f".B {roff(lines[0])}"]
        elif kind == "text":
            out += [".PP", *filled(lines)]
        elif kind == "option":
            names, about = split_option(lines)
            out += [".TP", f".B {roff(names)}", *filled([about])]
        elif kind == "example":
            out += [".PP", ".nf", *(roff(re.sub(r"(\S) {3,}", r"\1   ", line)) for line in lines), ".fi"]
    return out


def synopsis(pages):
    out = [".nf"]
    for name, page in pages.items():
        for usage in blocks_of(page)[0][1]:
            out.append(re.sub(rf"^holdfast {name}", rf"\\fBholdfast {name}\\fR", roff(usage)))
    return [*out, ".fi"]


def option_table(page):
    def cell(text):
        return text.replace("|", "\\|")

    out = ["| option | |", "|---|---|"]
    for kind, lines in blocks_of(page):
        if kind == "option":
            names, about = split_option(lines)
            out.append(f"| `{cell(names)}` | {cell(about)} |")
    return out


def block(kind, pages):
    if kind == "synopsis":
        return synopsis(pages)
    if kind == "commands":
        return [line for name, page in pages.items() for line in manual_of(name, page)]
    return option_table(pages[kind.removeprefix("options of ")])


def updated(text, pages):
    """`text` with its blocks written anew from the help pages {command: page}."""
    out, skipping, written = [], False, 0
    for line in text.split("\n"):
        begin = re.search(r"BEGIN ((?:options of )?\w+)", line)
        if begin:
            out += [line, *block(begin[1], pages)]
            skipping, written = True, written + 1
            continue
        if skipping and re.search(r"\bEND\b", line):
            skipping = False
        if not skipping:
            out.append(line)
    assert written > 0 and not skipping, "a block lacks its BEGIN or END line"
    return "\n".join(out)
