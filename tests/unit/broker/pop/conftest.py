"""Fixtures for tests of pops."""

from __future__ import annotations

import pytest

from .support import Rig


@pytest.fixture
def rig() -> Rig:
    return Rig()
