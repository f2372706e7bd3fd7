"""Servers that answer without end: what a client takes of their answers has a bound. (Not on ZooKeeper, whose own
library reads: docs/stores/zookeeper.md.)"""

import os
import socket
import struct
import subprocess
import threading
import unittest

from harness import PATIENCE, PROGRAM

STORE = os.environ["HOLDFAST_TEST_STORE"]
PEAK = 256 << 20  # Bytes: the bound of one answer (64 MiB), a few of them, and the program itself.
ENOUGH = 3 << 30  # What a server sends before it gives up on the client.
PIECE = 1 << 20


class Hostile:
    """Takes connections and hands each to `talk` on a thread of its own."""

    def __init__(self, talk):
        self.listener = socket.create_server(("127.0.0.1", 0))
        self.port = self.listener.getsockname()[1]
        self.talk = talk
        self.cut_off = threading.Event()  # A client has closed on an answer without end.
        threading.Thread(target=self.accept, daemon=True).start()

    def accept(self):
        while True:
            try:
                connection, _ = self.listener.accept()
            except OSError:
                return
            threading.Thread(target=self.serve, args=(connection,), daemon=True).start()

    def serve(self, connection):
        with connection:
            try:
                self.talk(connection)
            except OSError:
                self.cut_off.set()

    def close(self):
        self.listener.close()


def endless(connection, piece):
    for _ in range(ENOUGH // len(piece)):
        connection.sendall(piece)


def read_exactly(connection, size):
    data = b""
    while len(data) < size:
        more = connection.recv(size - len(data))
        if not more:
            raise OSError("closed")
        data += more
    return data


# --- Redis

SMALL = b"$-1\r\n"
LARGE = b"$8000\r\n" + b"x" * 8000 + b"\r\n"


def redis(answer):
    def talk(connection):
        asked = connection.recv(1 << 16)
        # HELLO, CLIENT SETINFO and the like first: a plain refusal, as of an old server.
        while asked and b"TIME" not in asked and b"EVAL" not in asked and b"SUBSCRIBE" not in asked:
            connection.sendall(b"+OK\r\n" * max(1, asked.count(b"*")))
            asked = connection.recv(1 << 16)
        if asked:
            answer(connection)

    return talk


def redis_elements(element, claimed):
    piece = element * (PIECE // len(element) + 1)

    def answer(connection):
        connection.sendall(b"*%d\r\n" % claimed)
        endless(connection, piece)

    return redis(answer)


def redis_bulk(connection):
    connection.sendall(b"$500000000\r\n")
    endless(connection, b"x" * PIECE)


# --- Consul

def consul(body):
    def talk(connection):
        connection.recv(1 << 16)
        connection.sendall(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\nX-Consul-Index: 1\r\n\r\n")
        chunk = f"{len(body):x}\r\n".encode() + body + b"\r\n"
        connection.sendall(b"1\r\n[\r\n")
        endless(connection, chunk)

    return talk


# --- etcd: gRPC, as far as one endless answer needs it.

def frame(kind, flags, stream, payload):
    return struct.pack(">I", len(payload))[1:] + bytes([kind, flags]) + struct.pack(">I", stream) + payload


def literal(name, value):
    return b"\x00" + bytes([len(name)]) + name + bytes([len(value)]) + value


class Http2:
    """One connection: a reader that keeps the windows, and one answer to the first request."""

    def __init__(self, message, size=1 << 30):
        self.message = message  # Repeated in one gRPC message.
        self.size = size

    def __call__(self, connection):
        read_exactly(connection, 24)  # The client's preface.
        connection.sendall(frame(4, 0, 0, b""))
        self.windows, self.initial = {0: 65535}, 65535
        self.more = threading.Condition()
        self.dead = False
        started = False
        try:
            while True:
                head = read_exactly(connection, 9)
                size, kind, flags = int.from_bytes(head[:3], "big"), head[3], head[4]
                stream = int.from_bytes(head[5:], "big") & 0x7FFFFFFF
                payload = read_exactly(connection, size) if size else b""
                if kind == 4 and not flags & 1:
                    self.settings(payload)
                    connection.sendall(frame(4, 1, 0, b""))
                elif kind == 6 and not flags & 1:
                    connection.sendall(frame(6, 1, 0, payload))
                elif kind == 8:
                    with self.more:
                        now = self.windows.get(stream, self.initial)
                        self.windows[stream] = now + int.from_bytes(payload, "big")
                        self.more.notify_all()
                elif kind in (3, 7):
                    raise OSError("cut off")
                elif kind == 1 and not started:
                    started = True
                    threading.Thread(target=self.answer, args=(connection, stream), daemon=True).start()
        finally:
            with self.more:
                self.dead = True
                self.more.notify_all()

    def settings(self, payload):
        for at in range(0, len(payload), 6):
            number, value = struct.unpack(">HI", payload[at:at + 6])
            if number == 4:
                with self.more:
                    for stream in self.windows:
                        if stream:
                            self.windows[stream] += value - self.initial
                    self.initial = value

    def answer(self, connection, stream):
        header = b"\x88" + literal(b"content-type", b"application/grpc")
        connection.sendall(frame(1, 4, stream, header))
        todo = b"\x00" + struct.pack(">I", self.size)
        left = self.size + len(todo)
        piece = self.message * (PIECE // len(self.message))
        while left > 0:
            with self.more:
                self.windows.setdefault(stream, self.initial)
                while min(self.windows[0], self.windows[stream]) <= 0 and not self.dead:
                    self.more.wait(1)
                room = min(self.windows[0], self.windows[stream], 16384, left)
                if self.dead:
                    return
                if len(todo) < room:
                    todo += piece
                part, todo = todo[:room], todo[room:]
                self.windows[0] -= len(part)
                self.windows[stream] -= len(part)
            try:
                connection.sendall(frame(0, 0, stream, part))
            except OSError:
                return
            left -= len(part)
        connection.sendall(frame(1, 5, stream, literal(b"grpc-status", b"0")))


CASES = {
    "redis": {"small elements": redis_elements(SMALL, 1_000_000), "large elements": redis_elements(LARGE, 100_000),
              "one text": redis(redis_bulk)},
    "consul": {"small values": consul(b"[],[],[],[]," * 1000), "one text": consul(b"x" * PIECE)},
    "etcd": {"one text": Http2(b"x"), "small messages": Http2(b"\x12\x00"),
             "small messages that end": Http2(b"\x12\x00", 16 << 20)},
}


class HostileTest(unittest.TestCase):
    def ask(self, talk):
        server = Hostile(talk)
        self.addCleanup(server.close)
        command = [PROGRAM, "ls", "--store", f"{STORE}://127.0.0.1:{server.port}"]
        with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as client:
            guard = threading.Timer(PATIENCE, client.kill)
            guard.start()
            said = client.stdout.read()
            _, status, usage = os.wait4(client.pid, 0)
            client.returncode = os.waitstatus_to_exitcode(status)
            guard.cancel()
        return said, client.returncode, usage.ru_maxrss << 10, server

    def test_an_answer_without_end_is_refused(self):
        for name, talk in CASES[STORE].items():
            with self.subTest(name):
                self.assertIn("64 MiB", self.refused(name, talk))

    def refused(self, name, talk):
        said, code, peak, server = self.ask(talk)
        print(f"{STORE}, {name}: peak {peak >> 20} MiB, {code}: {said.strip()[:300]}", flush=True)
        self.assertLess(peak, PEAK, said)
        self.assertGreater(code, 0, said)
        self.assertTrue(server.cut_off.wait(PATIENCE), "the connection was left open")
        return said


if __name__ == "__main__":
    unittest.main()
