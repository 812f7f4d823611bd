"""Processes of tests that import the tests' own modules."""

from __future__ import annotations

import os
from pathlib import Path


def environment() -> dict[str, str]:
    """Return this process's environment, in which Python finds the tests' modules: pytest knows them by its settings alone."""
    folder = str(Path(__file__).parent)
    return {**os.environ, "PYTHONPATH": os.pathsep.join([folder, *filter(None, [os.environ.get("PYTHONPATH")])])}
