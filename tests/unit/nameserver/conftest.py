"""Fixtures for tests of the NameServer."""

from __future__ import annotations

from contextlib import AbstractAsyncContextManager
from pathlib import Path

import pytest

from .support import Asker, asking


@pytest.fixture
def asker(tmp_path: Path) -> AbstractAsyncContextManager[Asker]:
    """A NameServer and who asks it, which run while the test does."""
    return asking(tmp_path)
