import asyncio
import gc
import weakref

from orbitmq.client.session.background_tasks import BackgroundTasks


async def test_work_is_begun_at_once_and_named_for_those_who_look_at_tasks():
    tasks = BackgroundTasks()
    begun = asyncio.Event()

    async def work():
        begun.set()
        return 7

    task = tasks.spawn(work(), "counting")
    await begun.wait()
    assert await task == 7
    assert task.get_name() == "orbitmq counting"


async def test_closing_cancels_what_runs_and_waits_until_it_has_ended():
    tasks, ends = BackgroundTasks(), []

    async def work():
        try:
            await asyncio.Event().wait()
        finally:
            await asyncio.sleep(0)
            ends.append("ended")

    tasks.spawn(work(), "waiting")
    await asyncio.sleep(0)
    await tasks.close()
    assert ends == ["ended"]


async def test_a_task_may_close_the_others_without_cancelling_itself():
    tasks = BackgroundTasks()
    other = tasks.spawn(asyncio.Event().wait(), "waiting")

    async def close():
        await tasks.close()
        await asyncio.sleep(0)
        return "went on"

    assert await tasks.spawn(close(), "closing") == "went on"
    assert other.cancelled()


async def test_an_unexpected_error_is_logged_and_a_cancelled_task_is_none(caplog):
    tasks = BackgroundTasks()

    async def fail():
        raise ValueError("a mistake of ours")

    failing, waiting = tasks.spawn(fail(), "failing"), tasks.spawn(asyncio.Event().wait(), "waiting")
    waiting.cancel()
    await asyncio.wait([failing, waiting])
    await tasks.close()
    assert [record.getMessage() for record in caplog.records] == ["orbitmq failing ended with an error"]
    assert "a mistake of ours" in caplog.text


async def test_a_task_that_has_ended_is_forgotten():
    tasks = BackgroundTasks()
    ended = weakref.ref(tasks.spawn(asyncio.sleep(0), "sleeping"))
    for _ in range(3):
        await asyncio.sleep(0)
    gc.collect()
    assert ended() is None
