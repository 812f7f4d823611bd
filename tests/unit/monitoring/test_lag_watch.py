"""Samples of a cluster, and the directory that keeps them; tests/e2e/test_group_lag.py runs the command."""

from __future__ import annotations

import asyncio
from types import MappingProxyType, SimpleNamespace
from typing import ClassVar

import matplotlib.font_manager  # noqa: F401 - on a new machine it starts a process that lists the fonts: here, not in a test
import pytest

from cases import each_case
from orbitmq.admin.client import AdminClient
from orbitmq.admin.groups import QueueLag
from orbitmq.errors import ClientError, ConfigError, JobFailed
from orbitmq.model.route import MessageQueue, QueueData, TopicRoute
from orbitmq.monitoring.lag_samples import UNKNOWN, GroupPosition, LagSample, encode_sample
from orbitmq.monitoring.lag_watch import kept_lag, take_sample, watch_lag
from orbitmq.wire.bodies.topics import QueueStats

FIRST, SECOND, THIRD = (MessageQueue("t", "a", number) for number in range(3))


class Admin(AdminClient):
    """A cluster with three queues: the group is at 5 of 7, at 0 of 7, and nowhere."""

    def __init__(self):
        pass

    silent: ClassVar[dict[str, str]] = {}

    async def groups_that_answer(self):
        return self, dict(self.silent)

    async def topic_route(self, topic):
        data = [
            QueueData(broker_name=name, read_queue_count=3, write_queue_count=3, perm=6) for name in ("a", *self.silent)
        ]
        return TopicRoute(queues=tuple(data))

    async def known_topic_stats(self, topic, *, silent=MappingProxyType({})):
        return {queue: QueueStats(0, 7) for queue in (FIRST, SECOND, THIRD) if topic == "t"}, silent

    async def lag(self, group, topic=None):
        return {queue: QueueLag(5 if queue == FIRST else 0, 7, 0) for queue in (FIRST, SECOND, THIRD)}

    async def has_committed(self, group, queue):
        return queue == SECOND


async def fail(*_, **__):
    raise ClientError("the broker does not answer")


def seen(admin, known=(), topic="t"):
    sample = asyncio.run(take_sample(admin, "g", topic, known))
    return sample.positions, sample.issue


@each_case("t", None)
def test_a_queue_without_an_offset_is_unknown_and_one_at_zero_is_not(topic):
    places, issue = seen(Admin(), topic=topic)
    assert [places[queue].lag for queue in (FIRST, SECOND, THIRD)] == [2, 7, None]
    assert places[THIRD] == GroupPosition(None, 7)
    assert issue is None


def test_a_moment_at_which_a_broker_does_not_answer_is_unknown(monkeypatch):
    monkeypatch.setattr(admin := Admin(), "lag", fail)
    assert seen(admin, [FIRST]) == ({FIRST: UNKNOWN}, "the broker does not answer")


@pytest.mark.parametrize("topic", ["t", None])
def test_queues_of_a_silent_broker_are_unknown_and_the_others_are_not(monkeypatch, topic):
    monkeypatch.setattr(Admin, "silent", {"b": "no answer"})
    places, issue = seen(Admin(), topic=topic)
    assert {queue: position for queue, position in places.items() if queue.broker_name == "b"} == {
        MessageQueue("t", "b", number): UNKNOWN for number in range(3)
    }
    assert (places[FIRST].lag, issue) == (2, "without b: no answer")


def test_a_queue_that_is_gone_is_unknown():
    gone = MessageQueue("t", "b", 0)
    assert seen(Admin(), [gone])[0][gone] == UNKNOWN


def test_a_cluster_that_cannot_be_asked_at_first_is_an_error():
    with pytest.raises(ClientError, match="does not answer"):
        seen(SimpleNamespace(groups_that_answer=fail))


async def test_a_watch_remembers_the_queues_of_the_moment_before(monkeypatch):
    admin = Admin()
    samples = watch_lag(admin, "g", "t", 0.0)
    assert (await anext(samples)).issue is None
    monkeypatch.setattr(admin, "known_topic_stats", fail)
    assert (await anext(samples)).positions == dict.fromkeys((FIRST, SECOND, THIRD), UNKNOWN)
    await samples.aclose()


def sample(at_ms, *queues):
    return LagSample(at_ms, dict.fromkeys(queues, UNKNOWN), None)


def test_a_line_without_its_end_is_cut_off(tmp_path):
    lines = [encode_sample(sample(number, FIRST)) for number in range(2)]
    with kept_lag(tmp_path, "g", "t") as kept:
        assert (kept.moments, kept.queues) == (0, [])
        for number in range(2):
            kept.append(sample(number, FIRST))
    with (tmp_path / "lag.jsonl").open("ab") as file:
        file.write(lines[0][:-1])

    with kept_lag(tmp_path, "g", "t") as kept:
        assert (kept.moments, kept.queues) == (2, [FIRST])

    assert (tmp_path / "lag.jsonl").read_bytes() == b"".join(lines)


def test_a_full_disk_names_the_file(tmp_path):
    with kept_lag(tmp_path, "g", "t") as kept:
        (tmp_path / "lag.jsonl").unlink()
        (tmp_path / "lag.jsonl").symlink_to("/dev/full")
        with pytest.raises(JobFailed, match=r"lag\.jsonl cannot be written: No space left on device"):
            kept.append(LagSample(1, {FIRST: UNKNOWN}, None))
    assert kept.moments == 0


def test_a_file_with_nothing_whole_begins_again(tmp_path):
    with kept_lag(tmp_path, "g", "t"):
        pass
    (tmp_path / "lag.jsonl").write_bytes(b'{"at_ms"')
    with kept_lag(tmp_path, "g", "t") as kept:
        assert (kept.moments, kept.queues) == (0, [])
    assert (tmp_path / "lag.jsonl").read_bytes() == b""


def test_an_end_that_is_no_samples_is_not_cut_off(tmp_path):
    with kept_lag(tmp_path, "g", "t"):
        pass
    (tmp_path / "lag.jsonl").write_bytes(b"precious")
    with pytest.raises(JobFailed, match=r"lag\.jsonl ends with what is not a sample"), kept_lag(tmp_path, "g", "t"):
        pass
    assert (tmp_path / "lag.jsonl").read_bytes() == b"precious"
    (tmp_path / "lag.jsonl").write_bytes(b'{"at\0\0')  # as a file system may leave it after a power cut
    with kept_lag(tmp_path, "g", "t"):
        assert (tmp_path / "lag.jsonl").read_bytes() == b""


def test_all_samples_are_drawn_and_summed_up(tmp_path):
    with kept_lag(tmp_path, "g", "t") as kept:
        kept.append(sample(1, FIRST))
    with kept_lag(tmp_path, "g", "t") as kept:
        kept.append(sample(2, FIRST, SECOND))
        queues = kept.finish()
    assert [(queue.queue, queue.moments, queue.unknown) for queue in queues] == [("a 0", 2, 2), ("a 1", 1, 1)]
    assert "Lag of g in t" in (tmp_path / "lag.svg").read_text()


def test_a_directory_is_for_one_group_in_one_topic_and_one_run(tmp_path):
    with kept_lag(tmp_path, "g", "t"), pytest.raises(JobFailed, match="under way"), kept_lag(tmp_path, "g", "t"):
        pass
    with pytest.raises(ConfigError, match="which is for"), kept_lag(tmp_path, "other", "t"):
        pass
