import asyncio
import threading

import pytest

from orbitmq.client.loop_thread import LoopThread
from orbitmq.errors import ClientError


@pytest.fixture
def loop_thread():
    thread = LoopThread("a loop")
    yield thread
    thread.stop()


async def where():
    return threading.current_thread().name


def test_work_runs_on_the_loop_of_the_thread_and_its_result_comes_back(loop_thread):
    assert loop_thread.call(where()) == "a loop"
    assert loop_thread.apply(lambda *arguments: (threading.current_thread().name, arguments), 1, 2) == (
        "a loop",
        (1, 2),
    )


def test_an_error_is_raised_where_the_caller_is(loop_thread):
    with pytest.raises(ZeroDivisionError):
        loop_thread.apply(lambda: 1 / 0)


def test_a_stopped_loop_is_closed_takes_no_work_and_stopping_it_again_does_nothing(loop_thread):
    loop = loop_thread.apply(asyncio.get_running_loop)
    loop_thread.stop()
    loop_thread.stop()
    assert loop.is_closed()
    with pytest.raises(ClientError, match="the client is closed"):
        loop_thread.call(where())


def test_stopping_cancels_what_runs_and_ends_the_thread(loop_thread):
    ends = []

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ends.append("ended")

    tasks = loop_thread.apply(lambda: [asyncio.ensure_future(wait())])
    loop_thread.apply(lambda: None)  # the task has begun
    loop_thread.stop()
    assert (ends, tasks[0].cancelled()) == (["ended"], True)
    assert "a loop" not in {thread.name for thread in threading.enumerate()}


def test_a_forgotten_loop_keeps_no_program_from_ending(loop_thread):
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "a loop"]
    assert thread.daemon


def test_stopping_ends_abandoned_generators(loop_thread):
    ends = []

    async def numbers():
        try:
            yield 1
        finally:
            ends.append("ended")

    async def first():
        return await anext(left)

    left = numbers()
    assert loop_thread.call(first()) == 1
    loop_thread.stop()
    assert ends == ["ended"]


@pytest.mark.real
@pytest.mark.filterwarnings("error")
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_loop_with_an_open_server_ends_where_warnings_are_errors(monkeypatch):
    monkeypatch.setattr(threading, "excepthook", lambda _: None)
    left = LoopThread("left open")

    async def listen():
        await asyncio.get_running_loop().create_server(asyncio.Protocol, "127.0.0.1", 0)

    left.call(listen())
    left.stop()
    assert not left.is_running


def test_a_loop_that_does_not_end_is_left_with_an_error_that_says_where_it_is(monkeypatch):
    monkeypatch.setattr("orbitmq.client.loop_thread.STOP_TIMEOUT_S", 0.05)
    stuck, go_on = LoopThread("stuck"), threading.Event()
    loop = stuck.apply(asyncio.get_running_loop)
    loop.call_soon_threadsafe(go_on.wait)
    with pytest.raises(ClientError, match=r"(?s)stuck: the loop has not ended within 0.05 s.*_run"):
        stuck.stop()
    go_on.set()
    stuck._thread.join()


@pytest.fixture
def ending():
    """A loop thread whose stop waits for a task, and the event that lets the task end."""
    thread, may_end, is_cancelled = LoopThread("ending"), threading.Event(), threading.Event()

    async def end_late():
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            is_cancelled.set()
            while not may_end.is_set():
                await asyncio.sleep(0.001)

    tasks = thread.apply(lambda: [asyncio.ensure_future(end_late())])
    thread.apply(lambda: None)  # the task has begun
    stopping = threading.Thread(target=thread.stop)
    stopping.start()
    assert is_cancelled.wait(60)
    yield thread, may_end
    may_end.set()
    stopping.join()
    assert tasks[0].done()


def test_a_second_stop_waits_for_the_first_and_disturbs_nothing_that_ends(ending, monkeypatch):
    thread, may_end = ending
    loop = thread._loop
    with monkeypatch.context() as short:
        short.setattr("orbitmq.client.loop_thread.STOP_TIMEOUT_S", 0.05)
        with pytest.raises(ClientError, match="has not ended within"):
            thread.stop()
    may_end.set()
    thread.stop()
    assert loop.is_closed()


def test_a_loop_that_is_ending_takes_no_work(ending):
    thread, _ = ending
    assert not thread.is_running
    with pytest.raises(ClientError, match="the client is closed"):
        thread.call(where(), timeout_s=60)


@pytest.mark.parametrize("ask", [LoopThread.stop, lambda thread: thread.call(where(), timeout_s=1)])
def test_the_loops_own_thread_cannot_wait_for_itself(loop_thread, ask):
    with pytest.raises(ClientError, match="a loop: its own thread cannot wait for it"):
        loop_thread.apply(ask, loop_thread)
    assert loop_thread.call(where()) == "a loop"


def test_work_that_takes_too_long_is_cancelled_with_an_error_that_names_it(loop_thread):
    ended = threading.Event()

    async def wait():
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    with pytest.raises(ClientError, match=r"wait has not ended within 0\.01 s"):
        loop_thread.call(wait(), timeout_s=0.01)
    assert ended.wait(60)


def test_a_timeout_that_the_work_raises_is_its_own(loop_thread):
    async def work():
        raise TimeoutError("its own")

    with pytest.raises(TimeoutError, match="its own"):
        loop_thread.call(work(), timeout_s=60)
