"""README.md holds only what runs: its examples are run from there."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster

ROOT = Path(__file__).resolve().parents[2]
BLOCKS = re.findall(r"^```(\w+)\n(.*?)^```", (ROOT / "README.md").read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
PYTHON = [block for language, block in BLOCKS if language == "python"]
SHELL = [block for language, block in BLOCKS if language == "sh"]


@pytest.fixture(scope="module")
def cluster():
    with LocalCluster.running() as running:
        yield running


def run(command, tmp_path, **options):
    """Run a command as after `. .venv/bin/activate`."""
    path = os.pathsep.join((str(Path(sys.executable).parent), os.environ["PATH"]))
    environment = os.environ | {"PATH": path}
    return subprocess.run(
        command, cwd=tmp_path, capture_output=True, text=True, check=False, env=environment, **options
    )


def run_example(block, cluster, tmp_path):
    program = tmp_path / "example.py"
    program.write_text(block.replace("127.0.0.1:9876", cluster.name_servers), encoding="utf-8")
    return run(["python", str(program)], tmp_path)


def test_the_producer_and_consumer_example_runs(cluster, tmp_path):
    done = run_example(PYTHON[0], cluster, tmp_path)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.count("SEND_OK") == 10
    assert sorted(re.findall(r"order \d", done.stdout)) == [f"order {number}" for number in range(10)]


@pytest.mark.spark
@pytest.mark.interop
def test_the_spark_example_runs(cluster, tmp_path):
    run_example(PYTHON[0], cluster, tmp_path)  # writes what is read here
    done = run_example(PYTHON[1], cluster, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout.count("new") >= 1
    assert done.stdout.count("order ") == 3


def test_the_commands_run(cluster, tmp_path):
    (block,) = (block for block in SHELL if "NAMESRV_ADDR" in block)
    script = block.replace("127.0.0.1:9876", cluster.name_servers)
    done = run(["sh", "-e"], tmp_path, input=script)
    assert done.returncode == 0, done.stderr
    assert "sent 1000 messages" in done.stderr
    assert re.search(r"^\d \d+ demo \d+$", done.stdout, re.MULTILINE)
