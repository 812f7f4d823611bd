from __future__ import annotations

import orjson
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path.send_header import PlainSend, parse_head, parse_plain_send
from orbitmq.codes import RequestCode
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import Frame
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import SendMessageV2
from seeds import examples

FIELDS = {
    "a": "pg", "b": "orders", "c": "TBW102", "d": "4", "e": "1", "f": "0", "g": "1700000000000", "h": "0",
    "i": "UNIQ_KEY\x01K\x02TAGS\x01a\x02", "j": "0", "k": "false", "m": "false", "n": "a",
}  # fmt: skip


def header(opaque: object = 7, **changes: str | None) -> bytes:
    fields = {name: value for name, value in (FIELDS | changes).items() if value is not None}
    document = {"code": 310, "extFields": fields, "flag": 0, "language": "JAVA", "opaque": opaque}
    return orjson.dumps(document | {"serializeTypeCurrentRPC": "JSON", "version": 479})


PIECES = [
    b'"', b"\\", b'\\"', b",", b'","j":"', b'","g":"', b'"opaque":', b'"b":"other",', b"0", b"\\u0001", b"\\u0000", b"\x01",
    "ä".encode(), b"\xff", b"}", b"{", b'"e":"2",', b'"flag":2,', b'"code":10,', b" ", b"-", b"\\n", b'"l":"1",', b"1700000000000",
]  # fmt: skip


def of_the_slow_path(text: bytes) -> PlainSend:
    """Return what the slow path reads in a header that a fast template has read; fails where it refuses it."""
    command = decode_command(Frame(0, text, b""))
    assert (command.code, command.flag) == (RequestCode.SEND_MESSAGE_V2, 0)
    sent = decode_header(SendMessageV2, command.ext_fields)
    assert (sent.reconsume_times or 0, sent.max_reconsume_times, sent.batch or False) == (0, None, False)
    properties = (sent.properties or "").encode()
    return sent.topic, sent.queue_id, sent.sys_flag, sent.born_at_ms, sent.flag, properties, command.opaque


ENDS = [
    b',"code":10', b',"code":310', b',"flag":2', b',"flag":false', b',"flag":0.0', b',"opaque":1e3', b',"opaque":8', b',"version":1e9',
    b',"version":99999999999', b',"extFields":{}', b',"extFields":null', b',"language":1', b',"remark":{}', b',"body":"x"',
]  # fmt: skip
TEXTS = [
    "²",
    "٣",
    " 1",
    "1 ",
    "+1",
    "-0",
    "1_0",
    "",
    "x",
    "true",
    "TRUE",
    "0",
    "00",
    "2147483648",
    "9" * 20,
    "9" * 5_000,
]


@settings(max_examples=examples(600))
@given(
    st.lists(st.sampled_from(ENDS), max_size=2),
    st.dictionaries(st.sampled_from("abcdefghijklmn"), st.sampled_from(TEXTS), max_size=2),
    st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(PIECES)), max_size=2),
)
def test_a_header_that_is_read_is_one_that_the_slow_path_takes_and_says_the_same(
    ends: list[bytes], fields: dict[str, str], edits: list[tuple[int, int, bytes]]
) -> None:
    text = header(**fields)[:-1] + b"".join(ends) + b"}"
    for at, cut, piece in edits:
        text = text[:at] + piece + text[at + cut :]
    found = parse_plain_send(text)
    assert found is None or found == of_the_slow_path(text)


INT32_MAX, INT64_MAX = 2**31 - 1, 2**63 - 1


@each_case(
    header(h=str(INT32_MAX)),
    header(h=str(-INT32_MAX - 1)),
    header(f=str(-INT32_MAX - 1)),
    header(f="3"),
    header(f="4"),
    header(opaque=INT32_MAX),
    header(opaque=-INT32_MAX - 1),
    header(g="0"),
    header(g=str(INT64_MAX)),
    header(d="9" * 9),
    header(j=None, m=None, i=None, k=None, n=None),
    header().replace(b',"version":479', b""),
)
def test_a_header_at_the_limits_of_its_numbers_is_plain(text: bytes) -> None:
    assert parse_plain_send(text) is not None


@each_case(
    header(h=str(INT32_MAX + 1)),
    header(h=str(-INT32_MAX - 2)),
    header(f=str(INT32_MAX + 1)),
    header(f=str(-INT32_MAX - 2)),
    header(f="8"),
    header(f="12"),
    header(f="128"),
    header(opaque=INT32_MAX + 1),
    header(opaque=-INT32_MAX - 2),
    header(opaque="7"),
    header(opaque=True),
    header(g="-1"),
    header(g=str(INT64_MAX + 1)),
    header(d="1" * 10),
    header(d="-4"),
    header(d=None),
    header(a=None),
    header(c=None),
    header(b=None),
    header(j="1"),
    header(m="true"),
    header(l="3"),
    header().replace(b'"flag":0', b'"flag":1'),
    header().replace(b'"flag":0,', b""),
    header().replace(b'"version":479', b'"version":"479"'),
    header().replace(b'"n":"a"', b'"n":1'),
    b"[]",
)
def test_a_header_beyond_the_limits_of_its_numbers_is_left_to_others(text: bytes) -> None:
    assert parse_plain_send(text) is None


HEAD = header().partition(b'","g":')[0]


def test_a_head_says_what_comes_before_the_time() -> None:
    assert parse_head(HEAD) == ("orders", 1, 0)
    assert parse_head(HEAD[:-1] + b"4") == ("orders", 1, 4)


@each_case(
    b"",
    HEAD[:-2],
    HEAD[:-1] + b"8",
    HEAD.replace(b"310", b"10"),
    HEAD.replace(b'"d":"4"', b'"d":"many"'),
    HEAD.replace(b'"e":"1"', b'"e":"2147483648"'),
    HEAD.replace(b'"c":"TBW102"', b'"c":1'),
    HEAD.replace(b'"a":"pg",', b""),
    HEAD.replace(b'"a":"pg"', b'"a":"pg","n":"a"'),
    HEAD.replace(b'"code":310', b'"code":310,"flag":0'),
)
def test_a_head_that_is_not_whole_or_says_more_is_left_to_others(text: bytes) -> None:
    assert parse_head(text) is None
