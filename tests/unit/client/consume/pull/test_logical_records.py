import pytest

from orbitmq.client.consume.pull.logical_records import logical_records
from orbitmq.model.message import Host
from orbitmq.model.route import MessageQueue
from orbitmq.wire.messages.record import format_record, iter_records

LOGICAL = MessageQueue("orders", "__syslo__global__", 7)


def record(queue_offset):
    return format_record(
        topic="orders", body=b"x" * queue_offset, properties=b"", queue_id=3, flag=0, queue_offset=queue_offset,
        physical_offset=0, sys_flag=0, stored_at_ms=0, store_host=Host("127.0.0.1", 10911),
    )  # fmt: skip


RECORDS = record(4) + record(5)


def places(records):
    return [(found.queue_id, found.queue_offset, bytes(found.body)) for found in iter_records(records)]


def test_records_get_the_number_and_the_offsets_of_their_logical_queue():
    assert places(logical_records(RECORDS, LOGICAL, 10_000)) == [(7, 10_004, b"xxxx"), (7, 10_005, b"xxxxx")]
    assert places(logical_records(RECORDS, LOGICAL, None)) == [(7, 4, b"xxxx"), (7, 5, b"xxxxx")]
    assert logical_records(b"", LOGICAL, 1) == b""


def test_those_of_a_plain_queue_stay_as_they_are():
    assert logical_records(RECORDS, LOGICAL._replace(broker_name="broker-a"), 10_000) is RECORDS


@pytest.mark.parametrize("damaged", [RECORDS[:30], b"\0" * 100, b"\xff" * 100, RECORDS[:1]])
def test_what_is_damaged_is_left_to_the_decoder(damaged):
    assert len(logical_records(damaged, LOGICAL, 1)) == len(damaged)
