"""The body of a batch request."""

from struct import pack

import pytest

from cases import each_case
from orbitmq.errors import HeaderError, InvalidArgument
from orbitmq.wire.messages.batch import BatchItem, encode_batch, parse_batch


def test_a_batch_is_a_chain_of_small_records():
    assert (
        encode_batch([(7, b"body", b"a\x01b\x02")]) == pack(">iiiii", 30, 0, 0, 7, 4) + b"body" + b"\x00\x04a\x01b\x02"
    )


def test_a_batch_comes_apart_again():
    items = [(1, b"first", b""), (-2, b"", b"k\x01v\x02"), (0, b"third", b"")]
    assert parse_batch(encode_batch(items)) == [BatchItem(*item) for item in items]
    assert parse_batch(b"") == []


def test_every_cut_is_refused():
    encoded = encode_batch([(1, b"first", b"k\x01v\x02"), (2, b"second", b"")])
    first = len(encode_batch([(1, b"first", b"k\x01v\x02")]))
    for size in range(1, len(encoded)):
        if size == first:
            continue
        with pytest.raises(HeaderError, match="batch message"):
            parse_batch(encoded[:size])


@each_case(
    (2**31 - 1, 0, 0, 0, 4),
    (-1, 0, 0, 0, 4),
    (0, 0, 0, 0, 0),
    (26, 0, 0, 0, 2**31 - 1),
    (26, 0, 0, 0, -1),
    (26, 0, 0, 0, 3),
    (26, 0, 0, 0, 5),
    (21, 0, 0, 0, 0),
)
def test_lengths_that_lie_are_refused_before_anything_is_allocated(head):
    with pytest.raises(HeaderError, match="declares"):
        parse_batch(pack(">iiiii", *head) + b"body\x00\x00")


def test_properties_longer_than_a_signed_short_are_refused():
    with pytest.raises(InvalidArgument, match="properties"):
        encode_batch([(0, b"", b"x" * 32768)])


def test_properties_as_long_as_a_signed_short_travel():
    item = BatchItem(0, b"", b"x" * 32767)
    assert parse_batch(encode_batch([item])) == [item]
