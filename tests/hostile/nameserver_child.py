"""orbitmq's command line under a clock, a loop and a disk that misbehave: each line of stdin says how.

    jump MS     the wall clock jumps by so many milliseconds
    block MS    nothing of the process runs for so long: the event loop is blocked, and its sockets wait
    disk MS     each write of a small file takes so much longer from now on

Each line is answered with `done`, when it is.
"""

import ctypes
import sys
import threading
import time
from pathlib import Path

_time, _time_ns = time.time, time.time_ns
_ahead_ns = 0
_disk_s = 0.0


def _jump(by_ms: int) -> None:
    global _ahead_ns
    _ahead_ns += by_ms * 1_000_000


def _block(ms: int) -> None:
    ctypes.PyDLL(None).usleep(ms * 1000)  # unlike other calls into C, one through PyDLL keeps the interpreter's lock


def _slow_disk(ms: int) -> None:
    global _disk_s
    _disk_s = ms / 1000


_COMMANDS = {"jump": _jump, "block": _block, "disk": _slow_disk}


def _obey() -> None:
    for line in sys.stdin:
        command, number = line.split()
        _COMMANDS[command](int(number))
        print("done", flush=True)


time.time = lambda: _time() + _ahead_ns / 1e9
time.time_ns = lambda: _time_ns() + _ahead_ns

from orbitmq import files  # noqa: E402 - after the clock was exchanged
from orbitmq.cli.main import main  # noqa: E402

_sync_directory = files._sync_directory


def _sync_slowly(directory: Path) -> None:
    time.sleep(_disk_s)
    _sync_directory(directory)


files._sync_directory = _sync_slowly
threading.Thread(target=_obey, daemon=True).start()
main()
