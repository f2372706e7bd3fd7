"""Reads a Containerfile: as much of its language as ours uses. Anything else is an error."""

import json
import re
import shlex
from dataclasses import dataclass, field
from pathlib import Path

KNOWN = {"ARG", "FROM", "WORKDIR", "COPY", "RUN", "USER", "VOLUME", "EXPOSE", "HEALTHCHECK",
         "ENTRYPOINT", "CMD"}


@dataclass
class Stage:
    image: str
    name: str
    steps: list = field(default_factory=list)  # (instruction, its text) in order.

    def words(self, instruction):
        """The words of the only such instruction, which is in the form of a list."""
        text, = [text for word, text in self.steps if word == instruction]
        return json.loads(text[text.index("["):])

    def text(self, instruction):
        text, = [text for word, text in self.steps if word == instruction]
        return text


def read(path):
    """The stages, the first one first, with ARGs of before the first FROM put in."""
    lines = [line for line in Path(path).read_text(encoding="utf-8").splitlines()
             if not line.lstrip().startswith("#")]
    stages, arguments = [], {}
    for line in re.sub(r"\\\n\s*", " ", "\n".join(lines)).splitlines():
        if not line.strip():
            continue
        word, text = line.split(maxsplit=1)
        if word not in KNOWN:
            raise ValueError(f"{path}: no test knows the instruction '{word}'")
        if word == "ARG":
            name, value = text.split("=")
            arguments[name] = value
        elif word == "FROM":
            for name, value in arguments.items():
                text = text.replace("${" + name + "}", value)
            image, *rest = text.split()
            stages.append(Stage(image, rest[1] if rest else ""))
        else:
            stages[-1].steps.append((word, text))
    return stages


def copied(text):
    """(the stage it comes from or "", its sources, where they go) of a COPY."""
    words = shlex.split(text)
    stage = words.pop(0).removeprefix("--from=") if words[0].startswith("--from=") else ""
    return stage, words[:-1], words[-1]
