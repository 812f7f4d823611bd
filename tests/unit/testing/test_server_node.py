import socket

import pytest

from orbitmq.address import parse_address
from orbitmq.errors import InvalidArgument
from orbitmq.testing.server_node import ServerNode

pytestmark = pytest.mark.real


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


@pytest.fixture
def node():
    """Make nodes of fake services, and the list of the port and service of each start."""
    made = []

    def make(fails=False):
        built = []

        def build(port):
            built.append((port, FakeService(port, fails)))
            return built[-1][1]

        made.append(ServerNode(build))
        return made[-1], built

    yield make
    for one in made:
        one.give_port_back()


async def test_a_server_comes_back_on_the_port_that_it_had(node):
    found, built = node()
    await found.start()
    await found.stop()
    await found.start()
    assert [port for port, _ in built] == [0, 4711]
    assert found.address == "127.0.0.1:4711"
    assert [service.done for _, service in built] == [["start", "stop"], ["start"]]


async def test_the_http_port_is_known_while_the_server_runs(node):
    found, _ = node()
    assert found.metrics_address is None
    await found.start()
    assert found.metrics_address == "127.0.0.1:9558"
    await found.stop()
    assert found.metrics_address is None


async def test_starting_and_stopping_twice_does_nothing_more(node):
    found, built = node()
    await found.stop()
    await found.start()
    await found.start()
    await found.stop()
    await found.stop()
    ((_, service),) = built
    assert service.done == ["start", "stop"]


async def test_a_server_that_did_not_start_is_not_stopped(node):
    found, built = node(fails=True)
    with pytest.raises(OSError, match="no"):
        await found.start()
    await found.stop()
    assert (built[0][1].done, found.address) == (["start"], "")


async def test_a_server_of_this_process_cannot_be_killed_but_a_stopped_one_may_be(node):
    found, built = node()
    await found.kill()
    await found.start()
    with pytest.raises(InvalidArgument, match="processes: False is not allowed, expected True"):
        await found.kill()
    await found.stop()
    assert built[0][1].done == ["start", "stop"]


async def test_no_server_is_given_the_port_of_a_server_that_is_down():
    with socket.create_server(("127.0.0.1", 0)) as chosen:
        address = f"127.0.0.1:{chosen.getsockname()[1]}"
    service = FakeService(0)
    service.address = address
    node = ServerNode(lambda port: service)
    await node.start()
    await node.stop()
    try:
        with socket.socket() as other, pytest.raises(OSError, match="in use"):
            other.bind(parse_address(address))  # as a choice of the system's: without SO_REUSEADDR
        with socket.create_server(parse_address(address)):
            pass  # as a server does
    finally:
        node.give_port_back()
    with socket.socket() as other:
        other.bind(parse_address(address))
