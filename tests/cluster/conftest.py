"""Requirements of failure scenarios on the machine: root for those with hosts of their own, Java for those with its peers."""

import pytest

from cluster.lab import is_available
from interop.conftest import jars  # noqa: F401
from machine import give_up


@pytest.fixture(scope="session")
def can_make_hosts():
    """Skip loudly where no network namespaces can be made; fail in CI."""
    if is_available():
        return
    give_up("no network namespaces: the partition tests need root and iproute2")
