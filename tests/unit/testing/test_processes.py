import psutil
import pytest

from orbitmq.net.loop import run
from orbitmq.testing.processes import ServerDied, ServerProcess
from unit.testing.support import broker_names

pytestmark = pytest.mark.real


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
