"""The cluster of all tests."""

from typing import Any

import pytest


@pytest.fixture(scope="session")
def rocketmq_options() -> dict[str, Any]:
    """Let a message that has failed come again after a second, where a production broker waits for ten and more."""
    return {"settings": {"messageDelayLevel": "1s 1s 1s 1s 1s"}}
