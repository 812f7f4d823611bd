"""The request of a pull, and the four outcomes or the refusal that the code of its answer means."""

import pytest

from orbitmq.client.consume.pull.pull_request import PullSettings, pull_header
from orbitmq.client.consume.pull.pull_result import PullStatus, parse_pull_answer
from orbitmq.client.consume.subscriptions import parse_subscription
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError
from orbitmq.model.route import MessageQueue
from orbitmq.wire.command import Command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import PullResponse, PullSysFlag

QUEUE = MessageQueue("orders", "broker-a", 3)


def header(commit_offset=0, **settings):
    subscription = parse_subscription("orders", "A || B", 77)
    return pull_header("g", QUEUE, subscription, PullSettings(**settings), queue_offset=40, commit_offset=commit_offset)


ANSWER = PullResponse(suggest_which_broker_id=1, next_begin_offset=40, min_offset=8, max_offset=50)
ANSWER_FIELDS = encode_header(ANSWER)


def test_a_pull_names_queue_offset_and_subscription_and_may_be_held():
    found = header(pull_count_max=5, suspend_ms=9)
    assert (found.consumer_group, found.topic, found.queue_id, found.broker_name) == ("g", "orders", 3, "broker-a")
    assert (found.queue_offset, found.count_max, found.suspend_timeout_ms) == (40, 5, 9)
    assert (found.subscription, found.sub_version, found.expression_type) == ("A || B", 77, "TAG")
    assert found.sys_flag == PullSysFlag.SUSPEND | PullSysFlag.SUBSCRIPTION == 6


@pytest.mark.parametrize(("commit_offset", "sys_flag"), [(0, 6), (1, 7), (38, 7)])
def test_a_pull_carries_an_offset_to_commit_when_there_is_one(commit_offset, sys_flag):
    found = header(commit_offset)
    assert (found.commit_offset, found.sys_flag) == (commit_offset, sys_flag)


def test_the_settings_are_those_of_javas_consumer_or_wider():
    found = PullSettings()
    assert (found.pull_count_max, found.window_count_max, found.window_size_max) == (256, 1_000, 100 * 2**20)
    assert (found.suspend_ms, found.timeout_ms) == (15_000, 30_000)


@pytest.mark.parametrize(
    ("code", "status", "records"),
    [
        (ResponseCode.SUCCESS, PullStatus.FOUND, b"records"),
        (ResponseCode.PULL_NOT_FOUND, PullStatus.NO_NEW_MESSAGE, b""),
        (ResponseCode.PULL_RETRY_IMMEDIATELY, PullStatus.NO_MATCHED_MESSAGE, b""),
        (ResponseCode.PULL_OFFSET_MOVED, PullStatus.OFFSET_ILLEGAL, b""),
    ],
)
def test_an_outcome_says_where_to_go_on_and_only_found_brings_records(code, status, records):
    assert parse_pull_answer(Command(int(code), ext_fields=ANSWER_FIELDS, body=b"records")) == (status, ANSWER, records)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, 9999])
def test_any_other_code_is_a_refusal(code):
    assert parse_pull_answer(Command(int(code), ext_fields=ANSWER_FIELDS, body=b"records")) is None


def test_an_answer_that_does_not_say_where_to_go_on_is_an_error():
    with pytest.raises(HeaderError, match="suggestWhichBrokerId is missing"):
        parse_pull_answer(Command(int(ResponseCode.SUCCESS)))
