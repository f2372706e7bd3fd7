#!/usr/bin/env python3
"""Draws the pictures of the pages: `docs/pictures/draw.py` writes the SVG files beside it.

A test compares them with what this script draws. Figures of the timeline come from renewal_schedule.h
and clock_bound.h. The screen of `top` is what a terminal showed (top.txt).
"""

import re
from pathlib import Path

from svg import Picture, terminal

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]


def lost_lock():
    picture = Picture(
        860, 452, "A lost lock, without and with a fencing token",
        "Client A is paused beyond its lease and writes late. A file that checks nothing takes the write, "
        "and the change of client B is lost. A file that checks tokens refuses it.")
    for top, fenced in ((0, False), (222, True)):
        a, b, file = top + 46, top + 96, top + 160
        picture.text(20, top + 28, "The file checks the token: the late write is refused" if fenced else
                     "The file checks nothing: the late write passes", "bold")
        for name, y in (("client A", a), ("client B", b), ("the file", file)):
            picture.text(20, y + 22, name)
        picture.box(110, a, 160, 34, ["holds, token 33" if fenced else "holds the lock"], "a")
        picture.box(270, a, 370, 34, [], "late")
        picture.text(340, a + 22, "paused", "", "middle")
        picture.text(525, a + 22, "swap, suspend, SIGSTOP", "", "middle")
        picture.box(640, a, 200, 34, ["wakes up, writes 9"], "bad")
        picture.line([(410, a - 6), (410, b + 40)], "dashed", arrow=False)
        picture.text(404, b - 6, "A's lease ends", "note", "end")
        picture.box(190, b, 220, 34, ["waits"], "")
        picture.box(410, b, 200, 34, ["holds, token 34" if fenced else "holds the lock"], "b")
        picture.line([(520, b + 34), (520, file)], "b")
        picture.text(512, b + 52, "writes 3 with token 34" if fenced else "writes 3", "note", "end")
        picture.line([(690, a + 34), (690, file - 14 if fenced else file)], "bad", arrow=not fenced)
        picture.box(110, file, 410, 34, ["10 items"])
        if fenced:
            picture.box(520, file, 320, 34, ["3 items, newest token 34"], "b")
            picture.cross(690, file - 14)
            picture.text(702, b + 52, "with token 33", "note")
            picture.text(840, file + 50, "33 is older than 34: refused", "note", "end")
        else:
            picture.box(520, file, 170, 34, ["3 items"], "b")
            picture.box(690, file, 150, 34, ["9 items"], "bad")
            picture.text(840, file + 50, "B's change is gone", "note", "end")
    return picture


SECONDS = {"milliseconds": 0.001, "seconds": 1.0}


def part(name, lease):
    """What renewal_schedule.h says of a lease: `lease_ / N`, perhaps at most so many seconds."""
    header = (ROOT / "include/holdfast/detail/renewal_schedule.h").read_text(encoding="utf-8")
    body = re.search(name + r"\(\) const \{(.*?)\}", header, re.DOTALL).group(1)
    limits = [float(number) * SECONDS[unit] for unit, number in re.findall(r"::(\w*seconds)\((\d+)\)", body)]
    value = lease / int(re.search(r"lease_ / (\d+)", body).group(1))
    return min([value, max(limits)] if limits else [value])


def slack(lease):
    """The part at the end of a lease that its holder does not count on, by clock_bound.h."""
    header = (ROOT / "src/base/clock_bound.h").read_text(encoding="utf-8")
    rate = int(re.search(r"rate_error_ppm = ([\d']+)", header).group(1).replace("'", ""))
    margin = int(re.search(r"margin = std::chrono::milliseconds\((\d+)\)", header).group(1))
    return lease * rate / 1e6 + min(margin / 1000, lease / 10)


def lease_timeline():
    lease = 30.0
    renewal, retry = part("renew_after", lease), part("retry_after", lease)
    kill_after, reserve = part("default_kill_after", lease), part("kill_reserve", lease)
    effort = part("longest_kill_effort", lease)
    deadline = lease - slack(lease)
    kill, term = deadline - reserve, deadline - reserve - kill_after
    picture = Picture(
        860, 442, "The timeline of a lease of 30 seconds whose renewals fail",
        "After the last renewal that was answered the store goes away. The command gets SIGTERM and SIGKILL "
        "before the deadline, and the next holder gets the lock after it.")

    def x(second):
        return 116 + second * 22.6

    picture.text(20, 30, "holdfast run with a ttl of 30 s: the store stops answering after second 0", "bold")
    rows = {"renewals": 74, "command": 114, "lock": 154}
    for name, y in rows.items():
        picture.text(20, y + 20, name)
    y = rows["renewals"]
    picture.text(x(0) + 12, y + 20, "answered", "note")
    picture.line([(x(0) - 5, y + 14), (x(0), y + 20), (x(0) + 9, y + 6)], "b", arrow=False)
    tries = [renewal + retry * n for n in range(20) if renewal + retry * n < term]
    for second in tries:
        picture.cross(x(second), y + 14)
    y = rows["command"]
    picture.box(x(0), y, x(term) - x(0), 28, ["runs"], "a")
    picture.box(x(term), y, x(kill) - x(term), 28, ["asked to end"], "late")
    picture.box(x(kill), y, x(deadline) - x(kill), 28, [], "bad")
    y = rows["lock"]
    picture.box(x(0), y, x(deadline) - x(0), 28, ["the holder counts on the lock"], "a")
    picture.box(x(lease), y, 836 - x(lease), 28, ["next"], "b")
    axis = y + 46
    picture.line([(x(0), axis), (836, axis)])
    for second in range(0, 31, 5):
        picture.line([(x(second), axis), (x(second), axis + 6)], arrow=False)
        picture.text(x(second), axis + 20, f"{second} s", "note", "middle")
    events = [
        (0, 0, "The last renewal that was answered is sent. The lease counts from here."),
        (renewal, 0, f"The next renewal is due after a third. It fails, and is retried every {retry:g} s."),
        (term, 0, f"SIGTERM to every process of the command: {kill_after:g} s before SIGKILL. On a busy machine"),
        (kill, -2, f"SIGKILL until no process is left. {reserve:g} s is in reserve for this."),
        (deadline, 7, f"The deadline: held() answers no, lost() tells. It is {slack(lease):.2f} s before the store's,"),
        (lease, 22, "The store ends the lease. Only now can the next holder get the lock."),
    ]
    more = {3: f"both signals come up to {effort:g} s earlier.", 5: "because clocks differ and need time to be read."}
    line = axis + 48
    for number, (second, shift, words) in enumerate(events, 1):
        picture.line([(x(second), 66), (x(second), axis)], "dashed", arrow=False)
        picture.mark(x(second) + shift, 54, number)
        picture.mark(34, line - 4, number)
        picture.text(112, line, f"{second:.1f} s", "small", "end")
        picture.text(128, line, words, "small")
        if number in more:
            line += 18
            picture.text(128, line, more[number], "small")
        line += 26
    return picture


def processes():
    picture = Picture(
        860, 560, "Program, keeper and guard of holdfast run",
        "The program forks the keeper, the keeper forks the guard, the guard forks the command. "
        "A table tells who ends what when one of them dies or is stopped.")
    top = 40
    picture.box(24, top, 210, 70, ["program (holdfast run)", "takes and renews the lock"], "a")
    picture.box(336, top, 180, 70, ["keeper", "watches the guard"])
    picture.box(626, top, 210, 70, ["guard", "counts the deadline"], "b")
    picture.box(626, 210, 210, 70, ["COMMAND", "and all that it starts"], "late")
    picture.box(24, 210, 210, 70, ["store", "ends a lease by its clock"])
    picture.line([(234, top + 24), (336, top + 24)])
    picture.text(285, top + 16, "forks", "note", "middle")
    picture.line([(516, top + 24), (626, top + 24)])
    picture.text(571, top + 16, "forks", "note", "middle")
    picture.line([(626, top + 52), (516, top + 52)], "dashed")
    picture.text(571, top + 70, "pipe (life)", "note", "middle")
    picture.line([(790, top + 70), (790, 210)])
    picture.text(782, 150, "forks", "note", "end")
    picture.text(782, 168, "TERM, KILL", "note", "end")
    picture.line([(90, top + 70), (90, 210)])
    picture.text(98, 168, "renews", "note")
    picture.line([(190, top + 70), (190, 136), (660, 136), (660, top + 70)], "a")
    picture.line([(660, 136), (190, 136), (190, top + 70)], "a")
    picture.text(425, 154, "socket pair", "small bold", "middle")
    picture.text(425, 172, "program to guard: new deadline, signals", "note", "middle")
    picture.text(425, 190, "guard to program: started, exited, no process left", "note", "middle")
    rows = [
        ("COMMAND ends", "The guard ends what is left and says so. The program releases the lock."),
        ("no renewal succeeds", "The guard sends TERM, then KILL, before the deadline."),
        ("the program is killed", "The socket closes: the guard sends TERM, then KILL, at once."),
        ("the program is stopped", "No new deadline comes: the guard ends COMMAND before the old one."),
        ("the guard is killed", "The kernel kills COMMAND. The keeper kills the rest. Status 125."),
        ("the guard is stopped", "The keeper continues it."),
        ("the keeper is killed", "The kernel signals the guard, which sends KILL at once. Status 125."),
        ("the keeper is stopped", "The program continues it."),
    ]
    y = 322
    picture.text(24, y, "when", "bold")
    picture.text(240, y, "then", "bold")
    for event, outcome in rows:
        y += 27
        picture.line([(24, y - 18), (836, y - 18)], arrow=False)
        picture.text(24, y, event)
        picture.text(240, y, outcome)
    return picture


def fencing():
    picture = Picture(
        860, 560, "The fencing sequence",
        "Each grant has a larger token. The resource remembers the largest token that it has seen, "
        "and refuses the write of an older holder.")
    lanes = {"A": 90, "lock": 330, "B": 560, "resource": 770}
    names = {"A": "client A", "lock": "the lock", "B": "client B", "resource": "the resource"}
    for lane, x in lanes.items():
        picture.line([(x, 52), (x, 540)], "dashed", arrow=False)
        picture.box(x - 72, 18, 144, 34, [names[lane]], {"A": "a", "B": "b"}.get(lane, ""))

    def message(y, start, end, words, kind="", shift=0):
        picture.line([(lanes[start], y), (lanes[end], y)], kind)
        middle = (lanes[start] + lanes[end]) / 2 + shift
        picture.text(middle, y - 7, words, "small", "middle")

    message(88, "A", "lock", "acquire", "a")
    message(122, "lock", "A", "granted, token 33", "a")
    picture.box(lanes["A"] - 60, 142, 120, 240, ["paused"], "late")
    message(156, "B", "lock", "acquire", "b")
    picture.box(lanes["lock"] - 85, 176, 170, 34, ["A's lease ends"], "late")
    message(246, "lock", "B", "granted, token 34", "b")
    message(290, "B", "resource", "write, token 34", "b")
    picture.box(lanes["resource"] - 78, 302, 156, 52, ["newest: 34", "none before: accepted"], "b")
    message(372, "B", "lock", "release", "b")
    picture.text(lanes["A"] + 8, 404, "wakes up", "note")
    message(434, "A", "resource", "write, token 33", "bad", 15)
    picture.box(lanes["resource"] - 78, 446, 156, 52, ["newest: 34", "33 is older: refused"], "bad")
    message(522, "resource", "A", "kLost: stop, undo what was begun", "bad", 15)
    return picture


def choosing():
    picture = Picture(
        860, 560, "Which store for whom",
        "One process: memory. One host: SQLite. Several hosts: Redis where a fail-over may forget a lock; "
        "otherwise ZooKeeper, etcd or Consul.")
    left, middle, right = 20, 300, 610
    picture.box(middle, 24, 260, 52, ["Who shares the lock?"], "a")
    picture.line([(middle, 50), (130, 50), (130, 112)])
    picture.text(146, 42, "threads of one process", "note")
    picture.box(left, 112, 220, 62, ["memory:", "inside the process"], "b")
    picture.line([(middle + 260, 50), (720, 50), (720, 112)])
    picture.text(570, 42, "processes of one host", "note")
    picture.box(right, 112, 230, 62, ["sqlite:", "a file; no server needed"], "b")
    picture.line([(430, 76), (430, 352)])
    picture.text(438, 228, "several hosts", "note")
    picture.box(middle - 20, 352, 300, 106, ["May two hold it for a moment?", "After a fail-over of the store:",
                                             "the resource checks the token,", "or work done twice is bearable"], "a")
    picture.line([(middle - 20, 430), (240, 430)])
    picture.text(246, 418, "yes", "note")
    picture.box(left, 404, 220, 62, ["redis:, postgres:, mysql:", "know their declared faults"], "b")
    picture.line([(middle + 280, 405), (right, 405)])
    picture.text(586, 396, "no", "note")
    picture.box(right, 362, 230, 88, ["zookeeper:, etcd:, consul:", "a majority of 3 servers or more",
                                      "take the one that you run"], "b")
    picture.text(430, 506, "Whatever the store: a process can be paused just after it has looked at its lock.",
                 "", "middle")
    picture.text(430, 530, "Only the resource can refuse its late write, by the fencing token.", "", "middle")
    return picture


def pictures():
    top = (HERE / "top.txt").read_text(encoding="utf-8")
    return {
        "lost-lock": lost_lock(),
        "lease-timeline": lease_timeline(),
        "processes": processes(),
        "fencing": fencing(),
        "choosing-a-store": choosing(),
        "top": terminal(top, "holdfast top on a busy store",
                        "Seven locks with ten holders and six waiters, the longest queue first."),
    }


if __name__ == "__main__":
    for name, drawn in pictures().items():
        (HERE / f"{name}.svg").write_text(str(drawn), encoding="utf-8")
