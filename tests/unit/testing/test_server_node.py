import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.testing.server_node import ServerNode


class FakeService:
    """A service that notes what is done to it."""

    def __init__(self, port, fails=False):
        self.address = f"127.0.0.1:{port or 4711}"
        self.metrics_address = "127.0.0.1:9558"
        self.done = []
        self._fails = fails

    async def start(self):
        self.done.append("start")
        if self._fails:
            raise OSError("no")

    async def stop(self):
        self.done.append("stop")


def node(fails=False):
    built = []

    def build(port):
        built.append((port, FakeService(port, fails)))
        return built[-1][1]

    return ServerNode(build), built


async def test_a_server_comes_back_on_the_port_that_it_had():
    found, built = node()
    await found.start()
    await found.stop()
    await found.start()
    assert [port for port, _ in built] == [0, 4711]
    assert found.address == "127.0.0.1:4711"
    assert [service.done for _, service in built] == [["start", "stop"], ["start"]]


async def test_the_http_port_is_known_while_the_server_runs():
    found, _ = node()
    assert found.metrics_address is None
    await found.start()
    assert found.metrics_address == "127.0.0.1:9558"
    await found.stop()
    assert found.metrics_address is None


async def test_starting_and_stopping_twice_does_nothing_more():
    found, built = node()
    await found.stop()
    await found.start()
    await found.start()
    await found.stop()
    await found.stop()
    ((_, service),) = built
    assert service.done == ["start", "stop"]


async def test_a_server_that_did_not_start_is_not_stopped():
    found, built = node(fails=True)
    with pytest.raises(OSError, match="no"):
        await found.start()
    await found.stop()
    assert (built[0][1].done, found.address) == (["start"], "")


async def test_a_server_of_this_process_cannot_be_killed_but_a_stopped_one_may_be():
    found, built = node()
    await found.kill()
    await found.start()
    with pytest.raises(InvalidArgument, match="processes: False is not allowed, expected True"):
        await found.kill()
    await found.stop()
    assert built[0][1].done == ["start", "stop"]
