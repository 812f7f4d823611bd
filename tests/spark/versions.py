"""Run the Spark tests on each version of Spark that is supported: `make proof ARGS="--only spark-versions"`.

Each version gets an environment of its own, in a folder that goes at the end, with what pip finds of its newest release. Exit
code 1 when a test of a version fails; the last line says how many passed on each.
"""

from __future__ import annotations

import argparse
import os
import re
import subprocess
import sys
import tempfile
import venv
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("4.0", "4.1", "4.2", "4.3")
TESTS = ("tests/unit/spark", "tests/unit/pyspark_rocketmq", "tests/spark")
_WARNINGS = ("-W", "default::ResourceWarning", "-W", "default::pytest.PytestUnraisableExceptionWarning")
"""Older versions leave sockets of their own open, which is not ours to mend."""
_SUMMARY = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.M)


def main() -> int:
    """Run the versions that were asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="spark.versions", description=__doc__)
    parser.add_argument("--versions", nargs="+", default=VERSIONS, choices=VERSIONS)
    options = parser.parse_args()
    results, is_failed = [], False
    for version in options.versions:
        with tempfile.TemporaryDirectory(prefix=f"spark-{version}-") as folder:
            print(f"Spark {version}: an environment", flush=True)
            python = prepare(Path(folder), version)
            print(f"Spark {version}: tests", flush=True)
            code, told = run(python)
        is_failed |= code != 0
        results.append(f"{version}: {told}")
    print("; ".join(results))
    return int(is_failed)


def prepare(folder: Path, version: str) -> Path:
    """Return the Python of a new environment with this project, its tools for tests, and one version of Spark."""
    venv.create(folder, with_pip=True)
    python = folder / "bin" / "python"
    wanted = [f"pyspark[connect]=={version}.*", f"{ROOT}[dev,spark,dashboard,quickstart]"]
    subprocess.run([python, "-m", "pip", "install", "-q", *wanted], check=True)
    return python


def run(python: Path) -> tuple[int, str]:
    """Run the tests; return pytest's exit code and its summary."""
    path = os.pathsep.join(str(ROOT / part) for part in ("src", "tests", "."))
    pytest = [str(python), "-m", "pytest", "-q", "-m", "not proof", "-n", "1", "-p", "no:cacheprovider"]
    command = [*pytest, *_WARNINGS, *TESTS]
    done = subprocess.run(
        command, cwd=ROOT, env={**os.environ, "PYTHONPATH": path}, stdout=subprocess.PIPE, text=True, check=False
    )
    summaries = _SUMMARY.findall(done.stdout)
    if done.returncode:
        print(done.stdout, flush=True)
    return done.returncode, summaries[-1] if summaries else f"exit code {done.returncode}"


if __name__ == "__main__":
    sys.exit(main())
