"""Every store's page answers the same questions: checks that it has the headings that all must have, in one order."""

import glob
import os
import re
import sys

REQUIRED = ["Guarantees", "How it works", "Options", "Limits", "Format", "Tested with", "Speed",
            "Known counter-examples"]


def problems_of(name, text):
    headings = re.findall(r"(?m)^## (.+?) *$", text)
    found = [f"{name}: the heading '{heading}' is missing" for heading in REQUIRED
             if heading not in headings]
    present = [heading for heading in headings if heading in REQUIRED]
    if not found and present != REQUIRED:
        found.append(f"{name}: the headings stand in the order {present}, not {REQUIRED}")
    return found


def main():
    pages = sorted(page for page in glob.glob(os.path.join(sys.argv[1], "docs/stores/*.md"))
                   if os.path.basename(page) != "matrix.md")  # It is about all of them.
    problems = [] if len(pages) > 1 else ["there are no pages to look at"]
    for page in pages:
        with open(page, encoding="utf-8") as file:
            problems += problems_of(os.path.basename(page), file.read())
    for problem in problems:
        print(problem)
    print(f"headings: {len(pages)} looked at, {len(problems)} problems")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
