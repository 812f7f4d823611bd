"""orbitmq's command line under a wall clock that jumps: each line of stdin says by how many milliseconds."""

import sys
import threading
import time

_time, _time_ns = time.time, time.time_ns
_ahead_ns = 0


def _jump() -> None:
    global _ahead_ns
    for line in sys.stdin:
        _ahead_ns += int(line) * 1_000_000
        print("jumped", flush=True)


time.time = lambda: _time() + _ahead_ns / 1e9
time.time_ns = lambda: _time_ns() + _ahead_ns
threading.Thread(target=_jump, daemon=True).start()

from orbitmq.cli.main import main  # noqa: E402 - after the clock was exchanged

main()
