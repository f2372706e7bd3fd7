#!/usr/bin/env python3
"""Are the pictures of the pages what their script draws, and does a page show each of them?

Usage: check_pictures.py ROOT

Every SVG file of docs/ must be well-formed, and a page must show it with an alternative text. Those in
docs/pictures must also have a title and a description, and equal what draw.py draws.
"""

import re
import sys
import xml.etree.ElementTree as xml
from pathlib import Path

import markdown

SHOWN = re.compile(r"!\[([^\]]*)\]\(([^)\s]+\.svg)\)")
SVG = "{http://www.w3.org/2000/svg}"


def shown_by(root, page):
    """{picture: its alternative text}, with paths relative to root."""
    text = (root / page).read_text(encoding="utf-8")
    return {(root / page).parent.joinpath(path).resolve().relative_to(root): words
            for words, path in SHOWN.findall(text)}


def problems_of(name, text, drawn):
    """`drawn` is what the script draws, or None: another program made the picture."""
    try:
        tree = xml.fromstring(text)
    except xml.ParseError as error:
        yield f"{name}: no XML: {error}"
        return
    if drawn is None:
        return
    for part in ("title", "desc"):
        if not (tree.findtext(SVG + part) or "").strip():
            yield f"{name}: has no <{part}>"
    if text != drawn:
        yield f"{name}: is not what the script draws; run docs/pictures/draw.py"


def problems(root, drawn):
    """`drawn`: {path relative to root: text}."""
    shown = {}
    for page in markdown.pages(root):
        for picture, words in shown_by(root, page).items():
            shown[picture] = words
            if not words:
                yield f"{page}: says nothing about {picture} in its alternative text"
    files = {path.relative_to(root) for path in (root / "docs").rglob("*.svg")}
    for picture in sorted(drawn.keys() - files):
        yield f"{picture}: is missing; run docs/pictures/draw.py"
    for picture in sorted(files):
        if picture not in shown:
            yield f"{picture}: no page shows it"
        yield from problems_of(picture, (root / picture).read_text(encoding="utf-8"), drawn.get(picture))


def main():
    root = Path(sys.argv[1]).resolve()
    folder = root / "docs/pictures"
    sys.path.insert(0, str(folder))
    import draw  # pylint: disable=import-outside-toplevel
    drawn = {(folder / f"{name}.svg").relative_to(root): str(text) for name, text in draw.pictures().items()}
    found = list(problems(root, drawn))
    print("\n".join(found))
    print(f"pictures: {len(drawn)} drawn, {len(found)} problems")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
