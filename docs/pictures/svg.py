"""A small canvas for the pictures of the pages: text, boxes and arrows, legible on light and dark pages.

A text that would leave its box or the picture is refused, so that nothing is cut off unseen.
"""

import math
from xml.sax.saxutils import escape

LIGHT = {"page": "#ffffff", "ink": "#1f2328", "note": "#59636e", "line": "#818b98", "plain": "#f6f8fa",
         "a": "#0969da", "a-fill": "#ddf4ff", "b": "#1a7f37", "b-fill": "#dafbe1",
         "bad": "#cf222e", "bad-fill": "#ffebe9", "late": "#9a6700", "late-fill": "#fff8c5"}
DARK = {"page": "#0d1117", "ink": "#e6edf3", "note": "#9da7b1", "line": "#7d8590", "plain": "#1c2128",
        "a": "#58a6ff", "a-fill": "#0d2f5c", "b": "#3fb950", "b-fill": "#0f3d1c",
        "bad": "#ff7b72", "bad-fill": "#5a1218", "late": "#e3b341", "late-fill": "#453008"}
KINDS = ("a", "b", "bad", "late")
WIDE = 0.6  # Of a letter, at most, as a part of the font's size.


def rules(colour):
    """The classes of shapes and texts in one set of colours."""
    found = [f".page {{ fill: {colour['page']}; stroke: {colour['line']}; }}",
             f"text {{ fill: {colour['ink']}; }}", f"text.note {{ fill: {colour['note']}; }}",
             f".box {{ fill: {colour['plain']}; stroke: {colour['line']}; }}",
             f".line {{ stroke: {colour['line']}; }}", f".head {{ fill: {colour['line']}; }}"]
    for kind in KINDS:
        found += [f"text.{kind} {{ fill: {colour[kind]}; }}", f".line.{kind} {{ stroke: {colour[kind]}; }}",
                  f".box.{kind} {{ fill: {colour[f'{kind}-fill']}; stroke: {colour[kind]}; }}",
                  f".head.{kind} {{ fill: {colour[kind]}; }}"]
    return "\n".join("  " + rule for rule in found)


STYLE = f"""<style>
  text {{ font: 14px 'DejaVu Sans', Verdana, sans-serif; }}
  text.note {{ font-size: 12px; }}
  text.small {{ font-size: 12px; }}
  text.bold {{ font-weight: bold; }}
  .line {{ fill: none; stroke-width: 1.5; }}
  .dashed {{ stroke-dasharray: 5 4; }}
{rules(LIGHT)}
  @media (prefers-color-scheme: dark) {{
{rules(DARK)}
  }}
</style>"""


class Picture:
    def __init__(self, width, height, title, desc):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" '
            f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
            f'<title id="title">{escape(title)}</title>', f'<desc id="desc">{escape(desc)}</desc>', STYLE,
            f'<rect class="page" x="0.5" y="0.5" width="{width - 1}" height="{height - 1}" rx="8"/>']

    def text(self, x, y, words, kind="", anchor="start"):
        size = 12 if "note" in kind or "small" in kind else 14
        length = len(words) * size * WIDE
        left = x - {"start": 0, "middle": length / 2, "end": length}[anchor]
        if left < 4 or left + length > self.width - 4 or not size <= y < self.height:
            raise ValueError(f"leaves the picture: {words}")
        place = "" if anchor == "start" else f' text-anchor="{anchor}"'
        self.parts.append(f'<text x="{x:g}" y="{y:g}" class="{kind}"{place}>{escape(words)}</text>')

    def box(self, x, y, width, height, lines, kind="", words=""):
        """`lines` in its middle, the first one bold if there are more; `kind` of the box, `words` of the text."""
        self.parts.append(f'<rect class="box {kind}" x="{x:g}" y="{y:g}" width="{width:g}" '
                          f'height="{height:g}" rx="5"/>')
        first = y + height / 2 + 5 - 9 * (len(lines) - 1)
        for number, line in enumerate(lines):
            look = words or ("bold" if number == 0 and len(lines) > 1 else "small" if number else "")
            if len(line) * (12 if "small" in look else 14) * WIDE > width - 4:
                raise ValueError(f"leaves its box: {line}")
            self.text(x + width / 2, first + 18 * number, line, look, "middle")

    def line(self, points, kind="", arrow=True):
        path = " ".join(f"{x:g},{y:g}" for x, y in points)
        self.parts.append(f'<polyline class="line {kind}" points="{path}"/>')
        if not arrow:
            return
        (x0, y0), (x, y) = points[-2:]
        turn = math.degrees(math.atan2(y - y0, x - x0))
        self.parts.append(f'<path class="head {kind}" d="M0,0 L-9,-4.5 L-9,4.5 Z" '
                          f'transform="translate({x:g},{y:g}) rotate({turn:.0f})"/>')

    def cross(self, x, y, size=6):
        for sign in (1, -1):
            self.line([(x - size, y - sign * size), (x + size, y + sign * size)], "bad", arrow=False)

    def mark(self, x, y, number, kind=""):
        """A number in a circle: a list below the picture explains it."""
        self.parts.append(f'<circle class="box {kind}" cx="{x:g}" cy="{y:g}" r="10"/>')
        self.text(x, y + 4, str(number), "small bold", "middle")

    def __str__(self):
        return "\n".join(self.parts + ["</svg>", ""])


def terminal(text, title, desc):
    """The text of a terminal as it was. The second line is the head of a table, and bold."""
    lines = [line.rstrip() for line in text.splitlines()]
    wide, high, edge = 7.3, 18, 14
    width = round(max(map(len, lines)) * wide + 2 * edge)
    height = len(lines) * high + 2 * edge
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" role="img" aria-labelledby="title desc" '
             f'viewBox="0 0 {width} {height}" width="{width}" height="{height}">',
             f'<title id="title">{escape(title)}</title>', f'<desc id="desc">{escape(desc)}</desc>',
             "<style>text { font: 12px 'DejaVu Sans Mono', Menlo, Consolas, monospace; white-space: pre; "
             "fill: #e6edf3; }</style>",
             f'<rect width="{width}" height="{height}" rx="8" fill="#0d1117"/>']
    for number, line in enumerate(lines):
        if not line:
            continue
        bold = ' style="font-weight: bold"' if number == 1 else ""
        parts.append(f'<text xml:space="preserve" x="{edge}" y="{edge + high * number + 12}" '
                     f'textLength="{len(line) * wide:.1f}"{bold}>{escape(line)}</text>')
    return "\n".join(parts + ["</svg>", ""])
