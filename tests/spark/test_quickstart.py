"""`make quickstart` on one month of the data, and what is left of it when it is interrupted."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import zipfile
from itertools import islice
from pathlib import Path

import psutil
import pytest

from examples.quickstart.flights import find_flights

pytestmark = [pytest.mark.spark, pytest.mark.interop]  # a Spark session of its own

ROOT = Path(__file__).resolve().parents[2]


def start(out: Path, *options: str) -> subprocess.Popen[str]:
    """Start the job for January, with a directory of its own for what is temporary."""
    temporary = out / "temporary"
    temporary.mkdir()
    command = [sys.executable, "-m", "examples.quickstart", "--months", "1", "--out", str(out / "out"), *options]
    environment = os.environ | {"TMPDIR": str(temporary)}
    return subprocess.Popen(
        command, cwd=ROOT, stdout=subprocess.PIPE, text=True, env=environment, start_new_session=True
    )


def test_one_month_of_flights_arrives_whole(tmp_path):
    with start(tmp_path) as job:
        told = job.communicate()[0]

    assert job.returncode == 0, told
    assert "rows in the file = sent = read: 27,004 = 27,004 = 27,004" in told
    assert "all 5 checks hold" in told
    (run,) = (tmp_path / "out").iterdir()
    assert (run / "delays.png").stat().st_size > 10_000


@pytest.mark.proof
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["ctrl-c", "terminate"])
def test_an_interrupted_run_leaves_nothing_behind(tmp_path, number):
    with start(tmp_path) as job:
        line = next(line for line in job.stdout if "publishing" in line)
        assert "27,004" in line
        children = psutil.Process(job.pid).children(recursive=True)
        assert {"java"} <= {child.name() for child in children}
        if number == signal.SIGINT:
            os.killpg(job.pid, number)  # as a terminal does: the JVM and its workers get it, too
        else:
            job.send_signal(number)
        rest = job.stdout.read()

    assert job.returncode == 130, rest
    gone, alive = psutil.wait_procs(children, timeout=60)
    assert not alive, [child.cmdline() for child in alive]
    assert len(gone) == len(children)
    assert not list((tmp_path / "temporary").glob("orbitmq-quickstart-*"))


@pytest.mark.proof
def test_a_cluster_and_a_file_of_ones_own_are_used(tmp_path, rocketmq):
    with zipfile.ZipFile(find_flights(None, tmp_path)) as archive, archive.open("flights.csv") as lines:
        (tmp_path / "few.csv").write_bytes(b"".join(islice(lines, 301)))
    with start(tmp_path, "--name-servers", rocketmq.name_servers, "--data", str(tmp_path / "few.csv")) as job:
        told = job.communicate()[0]

    assert job.returncode == 0, told
    assert "sent = read: 300 = 300 = 300" in told
    assert "NameServer and broker are up" not in told
