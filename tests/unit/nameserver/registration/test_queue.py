"""Claims about registrations that wait: oldest first, within a budget of bytes, one slice per call."""

from __future__ import annotations

import pytest

from orbitmq.nameserver.registration.queue import JOB_SIZE_MIN, Job, RegistrationQueue
from orbitmq.wire.slices import Slices


def job(log: list[str], name: str, size: int = 1, *, connection_id: int = 1) -> Job:
    """Return a job of two slices that write down when they are done."""

    def slices() -> Slices[None]:
        log.append(name)
        yield
        log.append(f"{name} done")

    return Job(connection_id, size, frozenset([name]), slices())


def test_the_oldest_is_finished_at_once_when_too_many_bytes_wait():
    log: list[str] = []
    queue = RegistrationQueue(size_max=3 * JOB_SIZE_MIN)
    for name in "abc":
        queue.append(job(log, name))
    assert (log, len(queue)) == ([], 3)
    queue.append(job(log, "d", JOB_SIZE_MIN + 1))
    assert (log, len(queue)) == (["a", "a done", "b", "b done"], 2)
    queue.finish()
    queue.append(job(log, "e", 4 * JOB_SIZE_MIN))
    assert (log[-2:], len(queue)) == (["e", "e done"], 0)


def test_the_budget_is_given_back_by_whatever_ends():
    log: list[str] = []
    queue = RegistrationQueue(size_max=2 * JOB_SIZE_MIN)
    for name in "abcd":
        queue.append(job(log, name, 2 * JOB_SIZE_MIN))
        assert len(queue) == 1
        while queue.step():
            pass
    assert log == [line for name in "abcd" for line in (name, f"{name} done")]


def test_whoever_does_the_slices_is_woken_once_for_each_time_there_is_work():
    log: list[str] = []
    queue = RegistrationQueue(lambda: log.append("woken"))
    queue.append(job(log, "a"))
    queue.append(job(log, "b"))
    queue.finish()
    queue.append(job(log, "c"))
    assert log.count("woken") == 1
    while queue.step():
        pass
    queue.append(job(log, "d"))
    assert log.count("woken") == 2


def test_a_step_is_one_slice_of_the_oldest():
    log: list[str] = []
    queue = RegistrationQueue()
    assert queue.step() is False
    queue.append(job(log, "a"))
    queue.append(job(log, "b"))
    assert [queue.step() for _ in range(4)] == [True, True, True, False]
    assert log == ["a", "a done", "b", "b done"]


@pytest.mark.parametrize(("concerns", "waits"), [({"b"}, True), ({"a", "x"}, True), ({"x"}, False), (set(), False)])
def test_what_concerns_the_same_broker_waits(concerns: set[str], waits: bool):
    queue = RegistrationQueue()
    queue.append(job([], "a"))
    queue.append(job([], "b"))
    assert queue.has_before(frozenset(concerns)) is waits


def test_a_connections_registrations_are_known_until_they_are_done():
    queue = RegistrationQueue()
    queue.append(job([], "a", connection_id=7))
    assert (queue.has_from(7), queue.has_from(1)) == (True, False)
    queue.finish()
    assert queue.has_from(7) is False
