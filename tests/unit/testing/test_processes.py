import asyncio
import signal
import socket

import psutil
import pytest

from orbitmq import Message, Producer
from orbitmq.address import parse_address
from orbitmq.errors import InvalidArgument
from orbitmq.net.loop import run
from orbitmq.process.child_process import ServerDied
from orbitmq.testing import LocalCluster
from orbitmq.testing.processes import ServerNode, ServerProcess
from unit.testing.support import broker_names
from waiting import until

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


def nameserver(directory, **more):
    return ServerProcess("nameserver", {"listenPort": "0", "bindAddress": "127.0.0.1"}, directory, **more)


@pytest.fixture
def new_child():
    """Find the process that this test started; pytest's own process has others, Java's for one."""
    before = set(psutil.Process().children())

    def find():
        (child,) = set(psutil.Process().children()) - before
        return child

    return find


def test_a_process_that_does_not_start_tells_its_own_words(tmp_path):
    process = ServerProcess("broker", {"listenPort": "-1"}, tmp_path)
    with pytest.raises(ServerDied, match="listenPort"):
        run(process.start())
    run(process.stop())


@pytest.mark.parametrize("end", [ServerProcess.stop, ServerProcess.kill])
async def test_a_process_listens_until_it_is_stopped_or_killed(tmp_path, new_child, end):
    process = nameserver(tmp_path)

    await process.start()
    try:
        assert await broker_names(process.address) == []
        child = new_child()
    finally:
        await end(process)
    await end(process)  # a second time: nothing
    assert not child.is_running()


def test_words_before_the_command_start_it(tmp_path, new_child):
    process = nameserver(tmp_path, prefix=["env", "ORBITMQ_MARK=here"])

    async def work():
        await process.start()
        try:
            return new_child().environ().get("ORBITMQ_MARK")
        finally:
            await process.stop()

    assert run(work()) == "here"


def test_a_start_that_is_cancelled_leaves_no_process(tmp_path):
    """A broker of a controlled group waits for its controllers for as long as it takes."""
    config = {"namesrvAddr": "127.0.0.1:9", "controllerAddr": "127.0.0.1:9", "enableControllerMode": "true"}
    config |= {"storePathRootDir": str(tmp_path), "listenPort": "0", "bindAddress": "127.0.0.1"}

    async def body():
        process = ServerProcess("broker", config, tmp_path)
        starting = asyncio.get_running_loop().create_task(process.start())
        child = await until(lambda: process._process)
        starting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await starting
        return child.returncode

    assert run(body()) == -signal.SIGKILL


async def test_a_process_registers_with_its_own_name_server_whatever_the_environment_names(monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:1")
    async with LocalCluster(processes=True) as cluster, Producer("makers", cluster.name_servers) as producer:
        assert (await producer.send(Message("orders", b"x"))).queue.broker_name == "broker-a"
