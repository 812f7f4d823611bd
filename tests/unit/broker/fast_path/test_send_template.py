from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path import send_template
from orbitmq.broker.fast_path.send_header import TEXT_SIZE_MAX
from orbitmq.broker.fast_path.send_template import PlainMessage, SendTemplates
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.model.message import SysFlag
from orbitmq.store.dispatch import tag_code_of
from orbitmq.wire.messages.properties import parse_properties, tag_code
from seeds import examples
from unit.broker.fast_path.test_send_header import PIECES, header

PROPERTIES = StoredProperties("c", region_id="r", trace_on=True)
SUFFIX = b"MSG_REGION\x01r\x02TRACE_ON\x01true\x02CLUSTER\x01c\x02"
KEYED = "KEYS\x01a b\x02UNIQ_KEY\x01K\x02TAGS\x01a\x02"
HALF = "TRAN_MSG\x01true\x02PGROUP\x01pg\x02UNIQ_KEY\x01K\x02"


def taught(*texts: bytes) -> SendTemplates:
    """Return templates that know each of these; a text is learnt when it comes for the second time."""
    templates = SendTemplates(PROPERTIES)
    for text in texts:
        assert templates.read(text) is not None
        assert templates.read(text) is not None
    return templates


def is_known(templates: SendTemplates, text: bytes) -> bool:
    """Return True if a text is put together from its template: it is not parsed as a whole."""
    failing = SendTemplates(PROPERTIES)
    failing._templates, failing._heads = templates._templates, templates._heads

    def fail(*_args: Any, **_named: Any) -> None:
        raise LookupError

    failing._read_whole = fail  # type: ignore[method-assign]
    try:
        return failing.read(text) is not None
    except LookupError:
        return False


def meaning(read: PlainMessage | None) -> tuple[Any, ...] | None:
    """Return what counts of a header's reading, whichever way it was read."""
    if read is None:
        return None
    topic, queue_id, sys_flag, born_at_ms, flag, properties, opaque, stored, key, tag, words = read
    if stored is None or sys_flag & SysFlag.TRANSACTION_PREPARED:
        return topic, queue_id, sys_flag, born_at_ms, flag, opaque, stored, key, properties
    tag = tag_code_of(topic, stored, 0) if tag is None else tag
    if words is not None:  # what is noted of a message has to be what its record says
        said = parse_properties(stored)
        assert (said["UNIQ_KEY"], said.get("KEYS", "")) == (key.decode(), words.decode())
    return topic, queue_id, sys_flag, born_at_ms, flag, opaque, stored, key, tag


def test_the_next_message_of_a_form_is_put_together_from_its_values() -> None:
    templates = taught(header())
    text = header(opaque=123, g="1700000009999", i="UNIQ_KEY\x01K2\x02TAGS\x01a\x02")
    assert is_known(templates, text)
    stored = b"UNIQ_KEY\x01K2\x02TAGS\x01a\x02" + SUFFIX
    expected = ("orders", 1, 0, 1_700_000_009_999, 0, b"", 123, stored, b"K2", tag_code("a"), b"")
    assert templates.read(text) == expected


def test_a_form_is_learnt_when_it_comes_again_for_whatever_queue_was_seen() -> None:
    templates = SendTemplates(PROPERTIES)
    templates.read(header())
    assert not is_known(templates, header())
    templates.read(header(e="2"))
    assert is_known(templates, header(e="2"))
    assert not is_known(templates, header())  # its queue was not seen again yet
    templates.read(header())
    assert is_known(templates, header())


@each_case("UNIQ_KEY\x01{key}\x02KEYS\x01{words}\x02", "KEYS\x01{words}\x02UNIQ_KEY\x01{key}\x02", "KEYS\x01{words}\x02A\x01b\x02UNIQ_KEY\x01{key}\x02B\x01c\x02"
)  # fmt: skip
def test_words_of_keys_are_values_too(properties: str) -> None:
    templates = taught(header(i=properties.format(key="K", words="a b")))
    text = header(i=properties.format(key="K77", words="order-9 x_y"))
    assert is_known(templates, text)
    assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))
    *_, stored, key, tag, words = templates.read(text)  # type: ignore[misc]
    assert parse_properties(stored)["KEYS"] == "order-9 x_y"  # type: ignore[arg-type]
    assert (key, tag, words) == (b"K77", 0, b"order-9 x_y")


@each_case(HALF, "DELAY\x013\x02UNIQ_KEY\x01K\x02", f"KEYS\x01a\x02{HALF}")
def test_what_asks_for_something_special_is_given_as_it_was_sent(properties: str) -> None:
    flag = "4" if "TRAN_MSG" in properties else "0"
    templates = taught(header(i=properties, f=flag))
    other = properties.replace("KEY\x01K\x02", "KEY\x01K5\x02")
    text = header(i=other, f=flag)
    assert is_known(templates, text)
    assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))
    assert templates.read(text)[5:9:2] == (other.encode(), None)  # type: ignore[index]


def test_a_half_message_whose_properties_say_nothing_of_it_is_read_whole() -> None:
    templates = taught(header(), header(f="4"))
    assert not is_known(templates, header(f="4"))
    assert templates.read(header(f="4")) == SendTemplates(PROPERTIES).read(header(f="4"))


@each_case("TAGS\x01a\x02", "XUNIQ_KEY\x01K\x02", "UNIQ_KEY\x01\x02", "UNIQ_KEY\x01K", "UNIQ_KEY\x01K\x02KEYS\x01a\x02KEYS\x01b\x02", "UNIQ_KEY\x01K\x02XKEYS\x01a\x02"
)  # fmt: skip
def test_what_has_no_form_is_read_whole_however_often_it_comes(properties: str) -> None:
    text, templates = header(i=properties), SendTemplates(PROPERTIES)
    for _ in range(4):
        assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))
    assert not is_known(templates, text)


@each_case(
    header(opaque=1_234_567_890),
    header().replace(b'"opaque":7', b'"opaque":07'),
    header().replace(b'"opaque":7', b'"opaque":-7'),
    header(g="170000000000"),
    header(g="170000000000x"),
    header(i="UNIQ_KEY\x01" + "K" * 65 + "\x02TAGS\x01a\x02"),
    header(i="UNIQ_KEY\x01K-1\x02TAGS\x01a\x02"),
    header(i="UNIQ_KEY\x01ä\x02TAGS\x01a\x02"),
    header(i=KEYED.replace("a b", 'a"b')),
    header(i=KEYED.replace("a b", "ä")),
    header(e="9"),
    header(j="3"),
)
def test_values_that_are_no_plain_words_are_looked_at(text: bytes) -> None:
    templates = taught(header(), header(i=KEYED))
    assert not is_known(templates, text)
    assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))


def test_keys_in_another_field_than_the_properties_are_no_keys() -> None:
    """A text whose unit mode holds what looks like the property; its words were noted for the index."""
    text = header().replace(b'"k":"false"', b'"k":"KEYS\\u0001words\\u0001false"')
    templates = SendTemplates(PROPERTIES)
    for _ in range(4):
        assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))


@each_case(header(i=KEYED).replace(b"KEYS", b"\\u004bEYS"), header(i=KEYED).replace(b"KEYS", b"KE\\u0059S"))
def test_words_of_keys_behind_an_escaped_name_are_not_taken_for_none(text: bytes) -> None:
    templates = SendTemplates(PROPERTIES)
    for _ in range(4):
        assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))


@each_case(
    header().replace(b',"j":', b',"g":"1111111111111","j":'),
    header().replace(b',"j":', b',"b":"probe","e":"7","j":'),
    header()[:-1] + b',"opaque":1}',
)
def test_a_field_that_comes_twice_counts_as_it_comes_last_whatever_it_looks_like(text: bytes) -> None:
    other = text.replace(b"1700000000000", b"1700000000009").replace(b'"opaque":7', b'"opaque":8')
    templates = SendTemplates(PROPERTIES)
    for each in (text, text, other):
        assert meaning(templates.read(each)) == meaning(SendTemplates(PROPERTIES).read(each))


@settings(max_examples=examples(800))
@given(
    st.sampled_from([header(), header(i=KEYED), header(i=HALF, f="4"), header(i=f"A\x01b\x02{KEYED}")]),
    st.lists(
        st.tuples(
            st.integers(0, 400),
            st.integers(0, 3),
            st.sampled_from([*PIECES, b"UNIQ_KEY\\u0001", b"KEYS\\u0001", b"\\u0002"]),
        ),
        max_size=4,
    ),
)
def test_whatever_is_written_into_a_text_a_form_says_what_reading_it_whole_says(
    text: bytes, edits: list[tuple[int, int, bytes]]
) -> None:
    templates = taught(header(), header(i=KEYED), header(i=HALF, f="4"), header(i=f"A\x01b\x02{KEYED}"))
    for at, cut, piece in edits:
        text = text[:at] + piece + text[at + cut :]
    other = (
        text.replace(b"K\\u0002", b"K9\\u0002").replace(b":7,", b":8,").replace(b"a b", b"x").replace(b"0000", b"0009")
    )
    for each in (
        text,
        text,
        text,
        other,
        other.replace(b"orders", b"bills"),
        other.replace(b'"e":"1"', b'"e":"3"'),
    ) * 2:
        assert meaning(templates.read(each)) == meaning(SendTemplates(PROPERTIES).read(each))


@settings(max_examples=examples(300))
@given(st.text('Kk5 -\x01\x02\\"ä', max_size=12), st.text('ab 7-_\x01\x02\\"ä', max_size=12), st.integers(0, 10**10))
def test_whatever_the_values_are_a_form_says_what_reading_it_whole_says(key: str, words: str, opaque: int) -> None:
    templates = taught(header(i=KEYED))
    text = header(opaque=opaque, i=f"KEYS\x01{words}\x02UNIQ_KEY\x01{key}\x02TAGS\x01a\x02")
    for _ in range(3):
        assert meaning(templates.read(text)) == meaning(SendTemplates(PROPERTIES).read(text))


def test_what_is_remembered_is_limited(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(send_template, "TEXTS_MAX", 3)
    templates = SendTemplates(PROPERTIES)
    for number in range(10):
        for _ in range(3):
            templates.read(header(e=str(number), i=f"UNIQ_KEY\x01K\x02TAGS\x01t{number}\x02"))
        assert max(len(templates._templates), len(templates._heads), len(templates._seen)) <= 3
    long = header(i="UNIQ_KEY\x01K\x02A\x01" + "x" * TEXT_SIZE_MAX + "\x02")
    for _ in range(3):
        templates.read(long)
    assert not is_known(templates, long)


def test_words_that_are_too_many_are_not_noted() -> None:
    templates = taught(header(i=KEYED))
    for words, noted in (("w" * 64, b"w" * 64), ("w" * 65, None)):
        text = header(i=KEYED.replace("a b", words))
        assert is_known(templates, text)
        assert templates.read(text)[-1] == noted  # type: ignore[index]
