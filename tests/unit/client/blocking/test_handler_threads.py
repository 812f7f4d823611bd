import asyncio
import threading

import pytest

from cases import each_case
from orbitmq.client.blocking.handler_threads import HandlerThreads
from orbitmq.errors import InvalidArgument
from waiting import until


def names():
    return [thread.name for thread in threading.enumerate() if thread.name == "orbitmq handler"]


async def test_a_call_runs_on_a_thread_that_is_used_again():
    found = []
    threads = HandlerThreads("handler", lambda item: found.append((item, threading.get_ident())))
    await threads.call(1)
    await threads.call(2)
    threads.close()
    (first, thread), (second, again) = found
    assert (first, second, thread) == (1, 2, again)
    assert thread != threading.get_ident()
    await until(lambda: not names())


async def test_calls_at_a_time_are_on_threads_of_their_own():
    together = threading.Barrier(3)
    threads = HandlerThreads("handler", lambda _item: together.wait())
    await asyncio.gather(*map(threads.call, range(3)))
    assert len(names()) == 3
    threads.close()
    await until(lambda: not names())


def leave(_item):
    raise SystemExit(3)


def stop(_item):
    raise StopIteration


def fail(_item):
    raise ValueError("no")


async def wait(_item):
    pass


@pytest.mark.parametrize(
    ("handler", "error", "text"),
    [
        (fail, ValueError, "no"),
        (leave, RuntimeError, "SystemExit"),
        (stop, RuntimeError, "StopIteration"),
        (lambda item: wait(item), RuntimeError, "awaited"),
    ],
)
async def test_what_a_handler_raises_is_raised_where_the_call_is_and_its_thread_goes_on(handler, error, text):
    threads: HandlerThreads[int] = HandlerThreads("handler", handler)
    for _ in range(2):
        with pytest.raises(error, match=text):
            await threads.call(1)
    assert len(names()) == 1
    threads.close()
    await until(lambda: not names())


async def test_a_call_that_was_given_up_holds_no_other():
    may_end = threading.Event()
    threads = HandlerThreads("handler", lambda item: may_end.wait() if item == "hangs" else None)
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(threads.call("hangs"), 0.01)
    await threads.call("another")
    assert len(names()) == 2
    may_end.set()
    threads.close()
    await until(lambda: not names())


@pytest.mark.parametrize("error", [None, ValueError("late")])
async def test_the_end_of_a_call_that_was_given_up_is_not_announced(error):
    may_end, told = threading.Event(), []

    def hang(_item):
        may_end.wait()
        if error is not None:
            raise error

    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: told.append(context))
    threads: HandlerThreads[int] = HandlerThreads("handler", hang)
    call = asyncio.create_task(threads.call(1))
    await until(names)
    call.cancel()
    await asyncio.gather(call, return_exceptions=True)
    may_end.set()
    await until(lambda: threads._idle)  # the loop has heard of the end
    assert told == []
    threads.close()
    await until(lambda: not names())


def test_a_handler_that_outlives_its_loop_ends_in_peace():
    may_end = threading.Event()
    threads: HandlerThreads[int] = HandlerThreads("handler", lambda _item: may_end.wait())

    async def begin():
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(threads.call(1), 0.01)

    asyncio.run(begin())
    (thread,) = [thread for thread in threading.enumerate() if thread.name == "orbitmq handler"]
    may_end.set()
    thread.join()


@each_case(wait, "print", 7)
def test_what_is_no_plain_function_is_refused(handler):
    with pytest.raises(InvalidArgument, match=r"^handler: .* function"):
        HandlerThreads("handler", handler)
