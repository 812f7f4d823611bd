"""Jobs that are killed, driver or worker, at random moments after they are up, until one of them comes to its end."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random

import psutil


def run_killed(
    job: Path, arguments: Sequence[str], *, kills: int, random: Random, report: Callable[[str], None] = lambda _: None
) -> int:
    """Run a job until it says `done`, and end it or one of its Python workers by SIGKILL so often.

    Args:
        job: prints `up` when it begins to work, and `done`.
        kills: at most so many, each up to six seconds after the last one, or after the job is up.

    Returns:
        how often something was killed.
    """
    count = 0
    while True:
        process = subprocess.Popen(
            [sys.executable, str(job), *arguments], stdout=subprocess.PIPE, text=True, start_new_session=True
        )
        ended = threading.Event()
        words: list[str] = []

        def listen(
            process: subprocess.Popen[str] = process, words: list[str] = words, ended: threading.Event = ended
        ) -> None:
            assert process.stdout is not None
            words.extend(line.strip() for line in iter(process.stdout.readline, ""))
            ended.set()

        listener = threading.Thread(target=listen)
        listener.start()
        try:
            while not words and not ended.is_set():
                ended.wait(0.05)
            while count < kills and not ended.wait(random.uniform(0.5, 6)):
                count += 1
                workers = _workers(process.pid)
                if workers and random.random() < 0.5:
                    report(f"kill {count}: a worker")
                    _kill(random.choice(workers))
                    continue
                report(f"kill {count}: the driver")
                break
            else:
                ended.wait()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()
            listener.join()
            if process.stdout is not None:
                process.stdout.close()
        if "done" in words:
            return count
        time.sleep(0)


def _workers(pid: int) -> list[int]:
    """Return the Python processes under a job: Spark's daemon and its workers."""
    try:
        children = psutil.Process(pid).children(recursive=True)
        return [child.pid for child in children if "python" in child.name()]
    except psutil.NoSuchProcess:
        return []


def _kill(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
