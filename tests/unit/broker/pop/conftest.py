"""Fixtures for tests of pops."""

from __future__ import annotations

import pytest

from .support import Harness


@pytest.fixture
def harness() -> Harness:
    return Harness()
