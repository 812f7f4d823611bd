from __future__ import annotations

import pytest

from orbitmq.errors import JobFailed
from orbitmq.model.route import MessageQueue
from orbitmq.spark.jobs.resend_checkpoint import ResendProgress, load_progress, save_progress

SOURCE, FIRST, SECOND = MessageQueue("old", "", 3), MessageQueue("new", "b", 0), MessageQueue("new", "a", 1)
PROGRESS = ResendProgress("0f", frozenset((FIRST, SECOND)), {FIRST: 0, SECOND: 7}, {FIRST: 2, SECOND: 9}, {SOURCE: 11})


def test_what_is_noted_is_found_again(tmp_path):
    path = tmp_path / "progress.json"
    assert load_progress(path) is None
    save_progress(path, PROGRESS)
    assert load_progress(path) == PROGRESS


def test_queues_of_a_topic_have_an_order_that_stays():
    more = PROGRESS._replace(targets=PROGRESS.targets | {MessageQueue("other", "a", 0)})
    assert more.queues_of("new") == [SECOND, FIRST]
    assert more.queues_of("none") == []


def test_an_origin_names_the_job_and_the_place():
    assert PROGRESS.origin(SOURCE, 5) == "0f/old//3/5"


@pytest.mark.parametrize(
    "content",
    [b"{", b"[]", b'{"id":"0f"}', b'{"id":"0f","targets":{},"began":{},"ends":{},"done":{"t":{"b":{"0":-1}}}}'],
    ids=["no JSON", "a list", "parts are missing", "a bad offset"],
)
def test_a_note_that_cannot_be_read_ends_the_job(tmp_path, content):
    path = tmp_path / "progress.json"
    path.write_bytes(content)
    with pytest.raises(JobFailed, match="cannot be read"):
        load_progress(path)
