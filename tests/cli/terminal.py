"""What a program shows on a terminal of its own, read from the other end."""

import os
import re
import select
import time

from harness import PATIENCE


class Terminal:
    def __init__(self, case, fd):
        self.case = case
        self.fd = fd
        self.seen = ""

    def send(self, text):
        os.write(self.fd, text.encode())

    def read(self, patience):
        """Whether something came within that time; it is at the end of `seen`."""
        if not select.select([self.fd], [], [], max(patience, 0))[0]:
            return False
        try:
            self.seen += os.read(self.fd, 65536).decode(errors="replace")
        except OSError:
            self.case.fail(f"the terminal closed; it showed {self.seen!r}")
        return True

    def expect(self, pattern):
        """Reads until the pattern shows up; what came before it is thrown away."""
        until = time.monotonic() + PATIENCE
        while True:
            match = re.search(pattern, self.seen)
            if match:
                self.seen = self.seen[match.end():]
                return match
            if not self.read(until - time.monotonic()):
                self.case.fail(f"the terminal did not show {pattern!r} but {self.seen!r}")
