"""Offsets by queue, in Java's forms."""

from __future__ import annotations

import pytest

from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.model.route import MessageQueue
from orbitmq.wire.bodies import offsets as offsets_module
from orbitmq.wire.bodies.offsets import QueueTimeSpan, decode_time_spans, encode_time_spans

OFFSETS = {MessageQueue("t", "b", 0): 7, MessageQueue("t", "b", 1): 2**40}


def test_a_groups_new_offsets_travel_in_javas_form_and_in_that_for_cpp() -> None:
    assert offsets_module.decode_offset_table(offsets_module.encode_offset_table(OFFSETS)) == OFFSETS
    assert offsets_module.decode_offset_table(offsets_module.encode_offset_list(OFFSETS)) == OFFSETS
    assert offsets_module.encode_offset_list({MessageQueue("t", "b", 3): 4}) == (
        b'{"offsetTable":[{"brokerName":"b","queueId":3,"topic":"t","offset":4}]}'
    )


def test_javas_own_table_is_read_and_written_again() -> None:
    body = golden("222-invoke-broker-to-reset-offset-answer").body
    offsets = offsets_module.decode_offset_table(body)
    assert offsets[MessageQueue("golden", "broker-a", 0)] == 4
    assert offsets_module.encode_offset_table(offsets) == body


def test_clients_say_where_they_are_and_the_broker_says_it_of_all() -> None:
    body = golden("221-get-consumer-status-from-client-answer").body
    offsets = offsets_module.decode_client_offsets(body)
    assert offsets_module.encode_client_offsets(offsets) == body
    table = {"c1": OFFSETS, "c2": {}}
    assert offsets_module.decode_clients_offsets(offsets_module.encode_clients_offsets(table)) == table


def test_corrections_are_keyed_by_bare_numbers() -> None:
    assert offsets_module.encode_corrections({0: 5, 3: 6}) == b'{"correctionOffsets":{0:5,3:6}}'


def test_a_body_that_is_no_table_is_refused_by_name() -> None:
    with pytest.raises(HeaderError, match="offset table"):
        offsets_module.decode_offset_table(b'{"offsetTable":{"x":1}}')


def test_javas_own_answer_is_read_and_written_again() -> None:
    body = golden("303-query-consume-time-span-answer").body
    assert encode_time_spans(decode_time_spans(body)) == body


def test_an_empty_queue_has_no_times() -> None:
    span = QueueTimeSpan(MessageQueue("t", "b", 0), -1, -1, -1, 0)
    assert decode_time_spans(encode_time_spans([span])) == [span]
    assert b'"minTimeStampStr":"1969-12-31#23:59:59:999"' in encode_time_spans([span])
