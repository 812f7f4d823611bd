"""Prometheus' promtool: where it is, and rule files that it tests."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]


@cache
def promtool() -> str:
    """Return the tool's path; skips loudly on a laptop that has none, and fails in CI."""
    found = subprocess.run([ROOT / "scripts" / "find-promtool"], capture_output=True, text=True, check=False)
    if found.returncode:
        if os.environ.get("CI") == "true":
            pytest.fail(found.stderr)
        pytest.skip(found.stderr.strip().splitlines()[-1])
    return found.stdout.strip()


def check_rules(tests: Path) -> None:
    """Run the scenarios of a file of rule tests. Raises AssertionError with what promtool says."""
    done = subprocess.run(
        [promtool(), "test", "rules", tests.name], cwd=tests.parent, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stdout + done.stderr
