"""Run `make test` on other Pythons: make proof ARGS="--only pythons".

Each gets a fresh clone of what is committed, in a folder that goes at the end, and there `make test PYTHON=...`, which makes an
environment of its own. Java's peers are not built again. Exit code 1 when a test of one fails; the last line says how many passed
on each, and which Pythons this machine does not have.
"""

from __future__ import annotations

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).parents[2]
VERSIONS = ("3.12", "3.13", "3.14")
PEERS = "tests/interop/java/target"
_SUMMARY = re.compile(r"^=* ?((?:\d+ \w+(?:, )?)+) in [\d.]+s", re.MULTILINE)


def main() -> int:
    """Run the versions that were asked for, one after the other."""
    parser = argparse.ArgumentParser(prog="proof.other_pythons", description=__doc__)
    parser.add_argument("--versions", nargs="+", default=VERSIONS, choices=VERSIONS)
    parser.add_argument("tests", nargs="*", help="arguments of pytest")
    options = parser.parse_args()
    results, is_failed = [], False
    for version in options.versions:
        python = find_python(version)
        if python is None:
            results.append(f"{version}: not on this machine")
            continue
        with tempfile.TemporaryDirectory(prefix=f"python-{version}-") as folder:
            code, told = run(python, Path(folder), options.tests)
        is_failed |= code != 0
        results.append(f"{version}: {told}")
    print("; ".join(results))
    return int(is_failed)


def find_python(version: str) -> str | None:
    """Return the path of a Python that runs: one on the path, or pyenv's newest of that version."""
    installed = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")).glob(f"versions/{version}.*/bin/python")
    for found in (shutil.which(f"python{version}"), *sorted(map(str, installed), reverse=True)):
        if found and subprocess.run([found, "-c", ""], check=False, capture_output=True).returncode == 0:
            return found
    return None


def run(python: str, folder: Path, tests: Sequence[str]) -> tuple[int, str]:
    """Run the tests in a fresh clone; return make's exit code and pytest's summary."""
    print(f"{python}: a clone and its environment, then the tests", flush=True)
    subprocess.run(["git", "clone", "-q", str(ROOT), str(folder)], check=True)
    if (ROOT / PEERS).exists():
        shutil.copytree(ROOT / PEERS, folder / PEERS, symlinks=True)
    kept = {name: os.environ[name] for name in ("HOME", "PATH", "JAVA_HOME") if name in os.environ}
    command = ["make", "test", f"PYTHON={python}", f"ARGS={' '.join(tests)}"]
    lines = []
    with subprocess.Popen(command, cwd=folder, env=kept | {"CI": "true"}, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        for line in process.stdout:
            lines.append(line)
            print(line, end="", flush=True)
    summaries = _SUMMARY.findall("".join(lines))
    return process.returncode, summaries[-1] if summaries else f"exit code {process.returncode}"


if __name__ == "__main__":
    sys.exit(main())
