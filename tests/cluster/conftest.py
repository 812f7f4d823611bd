"""Failure scenarios run on the loop that orbitmq uses; those with hosts of their own need root."""

import os

import pytest

from cluster.lab import is_available
from e2e.conftest import pytest_pyfunc_call  # noqa: F401


@pytest.fixture(scope="session")
def can_make_hosts():
    """Skip loudly where no network namespaces can be made; fail in CI."""
    if is_available():
        return
    reason = "no network namespaces: the partition tests need root and iproute2"
    if os.environ.get("CI") == "true":
        pytest.fail(reason)
    pytest.skip(reason)
