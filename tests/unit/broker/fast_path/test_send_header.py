from __future__ import annotations

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path import send_header
from orbitmq.broker.fast_path.send_header import PlainSend, SendHeaderTexts, parse_plain_send
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


def test_a_text_is_read_without_a_json_parser_and_says_the_same() -> None:
    texts = SendHeaderTexts()
    expected = ("orders", 1, 0, 1_700_000_000_000, 0, b"UNIQ_KEY\x01K\x02TAGS\x01a\x02", 7)
    for _ in range(2):
        assert texts.parse(header()) == expected
    assert parse_plain_send(header()) == expected
    assert texts.parse(header(opaque=8, e="3", i="X\x01y\x02"))[1::4] == (3, b"X\x01y\x02")  # type: ignore[index]


PIECES = [
    b'"', b"\\", b'\\"', b",", b'","j":"', b'","g":"', b'"opaque":', b'"b":"other",', b"0", b"\\u0001", b"\\u0000", b"\x01",
    "ä".encode(), b"\xff", b"}", b"{", b'"e":"2",', b'"flag":2,', b'"code":10,', b" ", b"-", b"\\n", b'"l":"1",', b"1700000000000",
]  # fmt: skip


@settings(max_examples=examples(600))
@given(st.lists(st.tuples(st.integers(0, 400), st.integers(0, 3), st.sampled_from(PIECES)), min_size=1, max_size=3))
def test_whatever_is_written_into_a_text_it_means_what_json_says(edits: list[tuple[int, int, bytes]]) -> None:
    texts = SendHeaderTexts()
    assert texts.parse(header()) is not None
    text = header()
    for at, cut, piece in edits:
        text = text[:at] + piece + text[at + cut :]
    for _ in range(2):  # the second time from memory
        found = texts.parse(text)
        assert found is None or found == parse_plain_send(text)
        assert texts.parse(header()) == parse_plain_send(header())


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
    texts = SendHeaderTexts()
    for found in (texts.parse(text), texts.parse(text), parse_plain_send(text)):
        assert found is None or found == of_the_slow_path(text)


@given(st.text(st.characters(codec="utf-8"), max_size=40))
def test_any_properties_are_read_right_or_left_to_others(properties: str) -> None:
    found = SendHeaderTexts().parse(header(i=properties))
    assert found is None or found[5] == properties.encode()


@each_case(
    header(opaque=-1),
    header(opaque=10**9),
    header(j="1"),
    header(m="true"),
    header(l="3"),
    header(h="1"),
    header(f="8"),
    header(g="17"),
    header(d="many"),
    header(e="2147483648"),
    header(a=None),
    header(i=None),
    header().replace(b'"opaque":7', b'"opaque":07'),
    header().replace(b'"flag":0', b'"flag":2'),
    header().replace(b'"flag":0', b'"flag":false'),
    header().replace(b'"version":479', b'"version":"479"'),
    header().replace(b'"version":479', b'"version":479,"code":10'),
    header().replace(b'"n":"a"', b'"n":"a","b":"other"'),
    header().replace(b'"n":"a"', b'"n":1'),
    header().replace(b'"c":"TBW102"', b'"c":1'),
    header().replace(b'"code":310', b'"code":310,"remark":"x"'),
    b"",
    b'","g":"',
)
def test_what_is_not_plain_or_not_written_like_most_is_left_to_others(text: bytes) -> None:
    texts = SendHeaderTexts()
    assert texts.parse(text) is None
    assert texts.parse(text) is None


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_header, "TEXTS_MAX", 3)
    texts = SendHeaderTexts()
    for number in range(10):
        assert texts.parse(header(b=f"t{number}", n=f"b{number}")) is not None
        assert texts.parse(header().replace(b'"version":479', b'"version":%d' % number)) is not None
        assert max(len(texts._heads), len(texts._middles), len(texts._tails)) <= 3
    assert min(len(texts._heads), len(texts._middles), len(texts._tails)) > 0
    long = "x" * 2000
    assert texts.parse(header(b=long, n=long)) is not None
    assert not any(len(text) > 1024 for text in [*texts._heads, *texts._middles])


@each_case(0, 9, 10, 100, 999_999_999)
def test_opaques_of_up_to_nine_digits_are_read_from_their_text(opaque: int) -> None:
    found = SendHeaderTexts().parse(header(opaque=opaque))
    assert found == parse_plain_send(header(opaque=opaque))
    assert found is not None
    assert found[6] == opaque


@each_case("A\x01b c\x02", "A\x01~\x02", "")
def test_properties_of_printable_ascii_are_read_from_their_text(properties: str) -> None:
    found = SendHeaderTexts().parse(header(i=properties))
    assert found is not None
    assert found[5] == properties.encode()


BROKEN = [
    header(g="170000000000x"),
    header(g="-170000000000"),
    header(opaque=1.5),
    header(f="2147483648"),
    header(d="1234567890"),
    header(i="A\x01b\x02").replace(b"\\u0001b", b"\\u0001\xff"),
    header().replace(b'"code":310', b'"code":10'),
    header().replace(b'"flag":0', b'"flag":0,"code":310'),
    header().replace(b'"k":"false"', b'"k":false'),
    header().replace(b'"k":"false"', b'"k":'),
    header()[:-1],
]


@each_case(*BROKEN)
def test_no_text_is_read_or_remembered_that_is_not_what_most_are(text: bytes) -> None:
    texts = SendHeaderTexts()
    assert [texts.parse(text) for _ in range(2)] == [None, None]
    assert texts.parse(header()) is not None


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
