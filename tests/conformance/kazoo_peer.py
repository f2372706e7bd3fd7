"""Holds a lock by kazoo's recipe until a file appears: kazoo_peer.py HOSTS PATH FILE."""

import os
import sys
import time

from kazoo.client import KazooClient

client = KazooClient(hosts=sys.argv[1], timeout=30)
client.start(timeout=60)
lock = client.Lock(sys.argv[2], "the-kazoo-peer")
if not lock.acquire(timeout=120):
    sys.exit("not acquired")
print("held", flush=True)
while not os.path.exists(sys.argv[3]):
    time.sleep(0.01)
lock.release()
print("released", flush=True)
client.stop()
