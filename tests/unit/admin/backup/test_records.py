import pytest
from hypothesis import given
from hypothesis import strategies as st

from orbitmq.admin.backup.records import RecordReader, is_batch, parse_message
from orbitmq.errors import CorruptRecord
from orbitmq.model.message import SysFlag
from orbitmq.wire.messages.record import PREFIX
from unit.admin.backup.support import encoded, record


def reader(begin=0, end=1_000):
    return RecordReader("orders", 0, begin, end)


@given(st.lists(st.binary(max_size=50), max_size=8), st.data())
def test_records_survive_any_slicing(bodies, data):
    content = b"".join(encoded(2 * number, body) for number, body in enumerate(bodies))
    cuts = sorted(data.draw(st.lists(st.integers(0, len(content)), max_size=8)))
    found, target = [], reader()
    for begin, end in zip([0, *cuts], [*cuts, len(content)], strict=True):
        found += target.feed(content[begin:end])
    target.finish()
    assert [bytes(one.body) for one in found] == bodies
    assert [one.queue_offset for one in found] == [2 * number for number in range(len(bodies))]
    assert target.count == len(bodies)


def test_a_record_that_is_cut_short_is_noticed_at_the_end():
    target = reader()
    assert len(list(target.feed(encoded(0) + encoded(1)[:-1]))) == 1
    with pytest.raises(CorruptRecord, match="behind 1 records"):
        target.finish()


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (encoded(0, topic="others"), "of queue 0 of 'others'"),
        (encoded(0, queue_id=1), "of queue 1"),
        (encoded(1_000), "queue offset 1000"),
        (encoded(5) + encoded(5), "queue offset 5, expected one from 6"),
        (bytes(200), "size 0"),
        ((1 << 31).to_bytes(4, "big") + bytes(200), "size 2147483648"),
        (encoded(0)[:-4].replace(b"body", b"bady") + encoded(0)[-4:], "checksum"),
    ],
)
def test_what_is_no_record_of_the_queue_is_refused(content, reason):
    with pytest.raises(CorruptRecord, match=reason):
        list(reader().feed(content))


def test_filler_is_no_message():
    with pytest.raises(CorruptRecord, match="filler"):
        parse_message(PREFIX.pack(100, 0xCBD43194) + bytes(92))


def test_a_batch_is_known_by_its_flag():
    assert is_batch(record(sys_flag=SysFlag.INNER_BATCH))
    assert not is_batch(record(sys_flag=SysFlag.COMPRESSED))
