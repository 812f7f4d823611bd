"""The one other thread."""

import asyncio
import threading
from functools import partial
from typing import Any

from orbitmq.store.sync.flusher import Flusher


def test_tasks_run_in_order_on_the_thread_and_report_on_the_loop():
    async def scenario():
        loop = asyncio.get_running_loop()
        flusher, ended = Flusher(loop), asyncio.Event()
        seen: list[tuple[Any, ...]] = []

        def on_main_thread():
            return threading.current_thread() is threading.main_thread()

        def work(number):
            seen.append((number, on_main_thread()))

        def done(number, error):
            seen.append((number, error, on_main_thread()))

        for number in range(3):
            flusher.submit(partial(work, number), partial(done, number))
        flusher.submit(lambda: None, lambda _error: ended.set())
        await ended.wait()
        flusher.stop()
        return seen

    seen = asyncio.run(scenario())
    assert [entry for entry in seen if len(entry) == 2] == [(0, False), (1, False), (2, False)]
    assert [entry for entry in seen if len(entry) == 3] == [(0, None, True), (1, None, True), (2, None, True)]


def fail():
    raise ZeroDivisionError


def test_an_error_is_reported_and_the_thread_goes_on():
    async def scenario():
        flusher, errors, ended = Flusher(asyncio.get_running_loop()), [], asyncio.Event()

        def done(error):
            errors.append(error)
            ended.set()

        flusher.submit(fail, errors.append)
        flusher.submit(lambda: None, done)
        await ended.wait()
        flusher.stop()
        return errors

    first, second = asyncio.run(scenario())
    assert isinstance(first, ZeroDivisionError)
    assert second is None


def test_stopping_reports_what_was_under_way():
    async def scenario():
        flusher, outcomes = Flusher(asyncio.get_running_loop()), []
        flusher.submit(fail, outcomes.append)
        flusher.stop()
        return outcomes

    assert len(asyncio.run(scenario())) == 1


def test_a_loop_that_is_gone_does_not_hurt_the_thread():
    loop = asyncio.new_event_loop()
    flusher, outcomes = Flusher(loop), []
    loop.close()
    flusher.submit(lambda: None, outcomes.append)
    flusher.stop()
    assert outcomes == [None]
