"""redis-py's Lock for a test: HOST:PORT COMMANDS LEASE_MS. See RedissonPeer.java for the lines."""

import sys
import threading

import redis


def main():
    host, port = sys.argv[1].split(":")
    lease = int(sys.argv[3]) / 1000
    client = redis.Redis(host=host, port=int(port))
    locks = {}

    def say(number, word):
        print(number, word, flush=True)

    def take(number, key, blocking):
        lock = client.lock(key, timeout=lease, sleep=0.02, thread_local=False)
        got = lock.acquire(blocking=blocking)
        if got:
            locks[key] = lock
        say(number, "yes" if got else "no")

    say(0, "ready")
    with open(sys.argv[2], encoding="utf-8") as commands:
        for line in commands:
            number, verb, key = line.rstrip("\n").split(" ", 2)
            try:
                if verb == "take":
                    threading.Thread(target=take, args=(number, key, True), daemon=True).start()
                elif verb == "try":
                    take(number, key, False)
                elif verb == "extend":
                    locks[key].reacquire()
                    say(number, "yes")
                else:
                    locks.pop(key).release()
                    say(number, "yes")
            except (redis.exceptions.LockError, KeyError):
                say(number, "no")
            except redis.exceptions.RedisError as error:
                say(number, f"error {error}")


main()
