"""Fixtures for tests of the store."""

from __future__ import annotations

import pytest

from orbitmq.testing.fake_disk import FakeDisk


@pytest.fixture
def disk() -> FakeDisk:
    return FakeDisk()
