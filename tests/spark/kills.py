"""Jobs that are killed, driver or worker, at random moments after they are up, until one of them comes to its end.

make proof ARGS="--only spark/exactly-once"                                   2,000,000 rows into a topic, 40 kills
make proof ARGS="--only spark/exactly-once -- --rows 20000 --kills 4"         in short

Every kill is a line with how many rows have come by then. The full size keeps its figures in benchmarks/results.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from random import Random
from typing import Any

import psutil

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "latest-exactly-once.json"
ROWS, KILLS = 2_000_000, 40


def run_killed(
    job: Path,
    arguments: Sequence[str],
    *,
    kills: int,
    random: Random,
    pause_s: float = 6,
    report: Callable[[str], None] = lambda _: None,
) -> int:
    """Run a job until it says `done`, and end it or one of its Python workers by SIGKILL so often.

    Args:
        job: prints `up` when it begins to work, and `done`.
        kills: at most so many, each up to `pause_s` after the last one, or after the job is up.

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
            while count < kills and not ended.wait(random.uniform(0.5, pause_s)):
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


def main() -> int:
    """Write rows exactly once into a topic while the job is killed; read them back and count."""
    from orbitmq import Message
    from orbitmq.blocking import Producer
    from orbitmq.spark.options import parse_write_options
    from orbitmq.testing import LocalCluster
    from unit.spark.exactly_once.topics import come, create, stored

    parser = argparse.ArgumentParser(prog="spark.kills", description=main.__doc__)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--kills", type=int, default=KILLS)
    parser.add_argument("--batch", type=int, default=20_000, help="rows of a micro-batch")
    parser.add_argument("--pause", type=float, default=12, help="seconds between two kills, at most")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument(
        "--keep", action=argparse.BooleanOptionalAction, default=True, help=f"write a full size to {RESULTS.name}"
    )
    given = parser.parse_args()
    settings = {"transaction_time_out": 20_000, "transaction_check_interval": 5_000, "transaction_check_max": 1_000_000}
    with tempfile.TemporaryDirectory() as directory, LocalCluster.running(settings=settings, processes=True) as cluster:
        servers = cluster.name_servers
        for topic, queues in (("from", 8), ("to", 8), ("markers", 1)):
            create(servers, topic, queues)
        with Producer("rows", servers) as producer:
            for first in range(0, given.rows, 10_000):
                last = min(first + 10_000, given.rows)
                producer.send_all(Message("from", b"%d" % number) for number in range(first, last))
                if last % 500_000 == 0 or last == given.rows:
                    _say(f"{last:,} of {given.rows:,} rows are there to be read")
        began = time.monotonic()
        arguments = [servers, "from", "to", "markers", f"{directory}/checkpoint", str(given.batch)]
        job = Path(__file__).with_name("exactly_once_job.py")
        options = parse_write_options({"nameServer": servers, "topic": "to", "delivery": "exactly-once"})

        def report(text: str) -> None:
            _say(f"{time.monotonic() - began:5.0f} s, {come(options):,} of {given.rows:,} rows: {text}")

        kills = run_killed(
            job, arguments, kills=given.kills, random=Random(given.seed), pause_s=given.pause, report=report
        )
        seconds = time.monotonic() - began
        report(f"the query has ended, after {kills} kills; the topic is read")
        found = stored(options)
    lost = given.rows - len(found)
    repeated = sum(found.values()) - len(found)
    print(f"{given.rows} rows, {kills} kills, {seconds:.0f} s: {lost} lost, {repeated} repeated (seed {given.seed})")
    figures = {
        "rows": given.rows,
        "kills": kills,
        "seconds": round(seconds),
        "lost": lost,
        "repeated": repeated,
        "seed": given.seed,
        "machine_cores": psutil.cpu_count(),
    }
    if given.keep and given.rows >= ROWS and given.kills >= KILLS:
        keep(RESULTS, figures)
    return 1 if lost or repeated or kills < given.kills else 0


def keep(results: Path, figures: dict[str, Any]) -> None:
    """Write the figures of a run to a file."""
    results.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")


def _say(text: str) -> None:
    print(text, flush=True)


if __name__ == "__main__":
    sys.exit(main())
