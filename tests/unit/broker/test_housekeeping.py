from __future__ import annotations

import asyncio

import pytest

from orbitmq.broker import housekeeping
from orbitmq.broker.housekeeping import Housekeeping, Job
from waiting import until


async def turns(*jobs: Job, count: int) -> None:
    house = Housekeeping(jobs)
    for turn in range(1, count + 1):
        await house.do_due(turn * 1_000)


async def test_each_job_runs_at_its_own_period_and_none_more_often_than_a_turn() -> None:
    done: list[str] = []
    periods = {"tiny": 100, "turn": 1_000, "odd": 2_500, "long": 5_000}
    jobs = [Job(period_ms, lambda name=name: done.append(name)) for name, period_ms in periods.items()]  # type: ignore[misc]
    await turns(*jobs, count=10)
    assert {name: done.count(name) for name in periods} == {"tiny": 10, "turn": 10, "odd": 4, "long": 2}


async def test_a_job_that_fails_stops_no_other_and_is_tried_again(caplog: pytest.LogCaptureFixture) -> None:
    done: list[int] = []

    async def fail_later() -> None:
        await asyncio.sleep(0)
        raise OSError("no space left")

    def fail() -> None:
        raise ValueError("a fault")

    await turns(Job(1_000, fail), Job(1_000, fail_later), Job(1_000, lambda: done.append(1)), count=2)
    assert done == [1, 1]
    failures = [str(record.exc_info[1]) for record in caplog.records if record.exc_info]
    assert failures == ["a fault", "no space left"]


async def test_a_failure_is_logged_once_until_the_job_was_done(caplog: pytest.LogCaptureFixture) -> None:
    outcomes = [OSError("full"), OSError("full"), OSError("broken"), None, OSError("broken")]

    def act() -> None:
        outcome = outcomes.pop(0)
        if outcome is not None:
            raise outcome

    await turns(Job(1_000, act), count=5)
    assert [str(record.exc_info[1]) for record in caplog.records if record.exc_info] == ["full", "broken", "broken"]


async def test_the_task_does_turn_after_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(housekeeping, "TURN_MS", 1)
    done: list[int] = []
    task = asyncio.create_task(Housekeeping([Job(2, lambda: done.append(1))]).run())
    await until(lambda: len(done) == 3)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
