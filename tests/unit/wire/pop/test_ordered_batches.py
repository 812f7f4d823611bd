"""The content of consumerOrderInfo.json, as Java writes and reads it."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import HeaderError
from orbitmq.wire.pop.ordered_batches import OrderedBatch, format_ordered_batches, parse_ordered_batches

PLACE = ("t", "g", 3)
# In the form of a Java 5.3.3 broker: two messages given to one attempt, the first of them acknowledged.
JAVAS = b"""{
\t"table":{
\t\t"t@g":{3:{
\t\t\t\t"a":"try-1",
\t\t\t\t"cm":1,
\t\t\t\t"i":60000,
\t\t\t\t"l":1795350644999,
\t\t\t\t"o":[7,2],
\t\t\t\t"oc":{7:1},
\t\t\t\t"ot":{9:1795350714580},
\t\t\t\t"popTime":1795350644580
\t\t\t},4:{"cm":0,"i":1,"l":2,"o":[],"popTime":3}
\t\t}
\t}
}"""
BATCH = OrderedBatch((7, 9), 1_795_350_644_580, 60_000, 1_795_350_644_999, 1, "try-1", {9: 1_795_350_714_580}, {7: 1})


def test_what_java_wrote_is_read():
    assert parse_ordered_batches(JAVAS) == [(PLACE, BATCH)]


def test_what_is_written_is_what_java_reads():
    assert format_ordered_batches([(PLACE, BATCH)]) == (
        b'{"table":{"t@g":{3:{"a":"try-1","cm":1,"i":60000,"l":1795350644999,"o":[7,2],"oc":{7:1},'
        b'"ot":{9:1795350714580},"popTime":1795350644580}}}}'
    )


def test_batches_come_back_as_they_were():
    full = OrderedBatch(tuple(range(64)), 5, 6, 7, 2**64 - 1)
    batches = [(PLACE, BATCH), (("t", "g", 0), OrderedBatch((4,), 1, 2, 3)), (("u", "h", 0), full)]
    content = format_ordered_batches(batches)
    assert b'"cm":-1,' in content
    assert parse_ordered_batches(content) == [batches[0], batches[1], batches[2]]
    assert parse_ordered_batches(format_ordered_batches([])) == parse_ordered_batches(b"{}") == []


@each_case(
    (b"[]", "consumerOrderInfo"),
    (b"{", "consumerOrderInfo"),
    (b'{"table":{"t":{0:{"o":[1]}}}}', "names no group"),
    (b'{"table":{"t@g":{-1:{"o":[1]}}}}', "queue"),
    (b'{"table":{"t@g":{0:{"o":[-1]}}}}', "o is -1"),
    (b'{"table":{"t@g":{0:{"o":[1],"popTime":-5}}}}', "popTime is -5"),
    (b'{"table":{"t@g":{0:{"o":[1],"ot":{1:-5}}}}}', "ot is -5"),
    (b'{"table":{"t@g":{0:{"o":[1],"a":5}}}}', "consumerOrderInfo"),
    (b'{"table":{"t@g":{0:{"o":[%s]}}}}' % b",".join([b"1"] * 65), "at most 64"),
    (b'{"table":5}', "consumerOrderInfo"),
)
def test_what_is_no_such_file_is_refused(content: bytes, said: str):
    with pytest.raises(HeaderError, match=said):
        parse_ordered_batches(content)
