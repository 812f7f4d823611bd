"""Each code of a pull's answer means one of four outcomes, or a refusal."""

import pytest

from orbitmq.client.consume.pull.pull_result import PullStatus, parse_pull_answer
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError
from orbitmq.wire.command import Command
from orbitmq.wire.header import encode_header
from orbitmq.wire.headers import PullResponse

HEADER = PullResponse(suggest_which_broker_id=1, next_begin_offset=40, min_offset=8, max_offset=50)
FIELDS = encode_header(HEADER)


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
    assert parse_pull_answer(Command(int(code), ext_fields=FIELDS, body=b"records")) == (status, HEADER, records)


@pytest.mark.parametrize("code", [ResponseCode.SYSTEM_BUSY, ResponseCode.NO_PERMISSION, 9999])
def test_any_other_code_is_a_refusal(code):
    assert parse_pull_answer(Command(int(code), ext_fields=FIELDS, body=b"records")) is None


def test_an_answer_that_does_not_say_where_to_go_on_is_an_error():
    with pytest.raises(HeaderError, match="suggestWhichBrokerId is missing"):
        parse_pull_answer(Command(int(ResponseCode.SUCCESS)))
