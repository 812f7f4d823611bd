"""Processes that attack a NameServer and end by themselves: `python -m hostile.attacker frames|flood HOST PORT COUNT …`."""

from __future__ import annotations

import os
import socket
import struct
import sys
import time
from collections import deque
from contextlib import suppress
from random import Random

from hostile.attacks import connections_of, golden_requests

FLOOD_ADDRESSES = 20
_RESET = struct.pack("ii", 1, 0)
_HELD = 4_000


def send_frames(host: str, port: int, count: int, seed: str) -> None:
    """Send injured frames, each of which the server gets to see: one that ends its connection is the last on it.

    Made in rounds outside of measurements: each line that comes in says how many, and `ready` goes out when they are made;
    the next line sends them, and `done` goes out.
    """
    frames, random = golden_requests(), Random(seed)
    while count > 0 and (line := sys.stdin.readline()):
        wanted = min(count, int(line))
        count -= wanted
        batches = list(connections_of(frames, wanted, random))
        print("ready", flush=True)
        sys.stdin.readline()
        for data in batches:
            _send(host, port, data)
        print("done", flush=True)


def _send(host: str, port: int, data: bytes) -> None:
    with socket.create_connection((host, port)) as peer, suppress(OSError):
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)  # or ports run out
        peer.sendall(data)
        peer.shutdown(socket.SHUT_WR)
        while peer.recv(65536):
            pass


def flood(host: str, port: int, count: int, rate: int) -> None:
    """Open `rate` connections a second from several addresses, keep the latest, and tell how many were opened."""
    held: deque[socket.socket] = deque()
    began, opened = time.monotonic(), 0
    for number in range(count):
        ahead_s = number / rate - (time.monotonic() - began)
        if ahead_s > 0:
            time.sleep(ahead_s)
        peer = socket.socket()
        peer.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, _RESET)
        peer.setblocking(False)
        try:
            peer.bind((f"127.0.0.{2 + number % FLOOD_ADDRESSES}", 0))
            peer.connect_ex((host, port))
            opened += 1
        except OSError:
            pass
        held.append(peer)
        if len(held) > _HELD:
            held.popleft().close()
    print(opened, time.monotonic() - began, flush=True)
    for peer in held:
        peer.close()


def main() -> None:
    """Run one attack."""
    kind, host, port, count, how = sys.argv[1:]
    if kind == "frames":
        if hasattr(os, "nice"):  # where cores are few, those whose answers are timed go first
            os.nice(5)
        send_frames(host, int(port), int(count), how)
    else:
        flood(host, int(port), int(count), int(how))


if __name__ == "__main__":
    main()
