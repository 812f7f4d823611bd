import pytest

from orbitmq.client.loop_thread import LoopThread
from unit.client.fakes import FakeCluster


@pytest.fixture
def served():
    """A fake cluster on a loop of its own, and a way to change it there."""
    loop_thread = LoopThread("fake cluster")
    cluster = loop_thread.call(FakeCluster().__aenter__())
    cluster.apply = loop_thread.apply
    cluster.call = loop_thread.call
    yield cluster
    loop_thread.call(cluster.__aexit__())
    loop_thread.stop()
