from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path.pull_template import PullTemplates
from orbitmq.broker.fast_path.send_header import TEXT_SIZE_MAX
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import Frame
from orbitmq.wire.header import PROBE, decode_header
from orbitmq.wire.headers import PullMessage

FIELDS = (
    b'"consumerGroup":"g","topic":"t","queueId":"3",%b"maxMsgNums":"32","sysFlag":"7",%b"suspendTimeoutMillis":"15000",'
    b'"subscription":"*","subVersion":"1"'
)
TEXT = b'{"code":11,"extFields":{%b},"flag":0,"language":"JAVA","opaque":%b,"serializeTypeCurrentRPC":"JSON","version":479}'


def text(offset: object = 5, commit: object = 4, opaque: object = 9, *, first: str = "queueOffset") -> bytes:
    pair = [f'"queueOffset":"{offset}",'.encode(), f'"commitOffset":"{commit}",'.encode()]
    pair = pair if first == "queueOffset" else pair[::-1]
    return TEXT % (FIELDS % tuple(pair), str(opaque).encode())


def taught(*texts: bytes) -> PullTemplates:
    """Templates that know each of these; a text is learnt when it comes for the second time."""
    templates = PullTemplates()
    for one in texts:
        assert templates.read(one) is None
        assert templates.read(one) is None
    return templates


def parsed(one: bytes) -> PullMessage:
    return decode_header(PullMessage, decode_command(Frame(0, one, b"")).ext_fields)


@each_case("queueOffset", "commitOffset")
def test_a_text_that_came_twice_is_read_with_other_numbers(first: str) -> None:
    templates = taught(text(first=first))
    found = templates.read(text(1234567, 0, 12345, first=first))
    assert found is not None
    assert (found.queue_offset, found.commit_offset, found.opaque) == (1234567, 0, 12345)
    assert (found.header.topic, found.header.queue_id, found.header.sys_flag) == ("t", 3, 7)


def test_a_text_that_differs_elsewhere_is_another_template() -> None:
    templates = taught(text())
    assert templates.read(text().replace(b'"3"', b'"4"')) is None
    assert templates.read(text().replace(b'"flag":0', b'"flag":2')) is None


@each_case(
    text("-1"), text(commit="-1"), text("1e3"), text(""), text("1" * 19), text(opaque="01"), text(opaque="1" * 10),
    text(opaque="-3"), text("٣"),
)  # fmt: skip
def test_numbers_that_are_not_plain_are_parsed_as_a_whole(one: bytes) -> None:
    templates = taught(text())
    for _ in range(3):
        assert templates.read(one) is None


@each_case(
    text().replace(b'"subVersion"', b'"queueOffset":"7","subVersion"'),
    text().replace(b'"subVersion"', b'"queue\\u004fffset":"7","subVersion"'),
    text().replace(b'"subVersion"', b'"commitOffset":"7","subVersion"'),
    text().replace(b',"version"', b',"opaque":9,"version"'),
    text().replace(b'"subVersion"', b'"opaque":9,"subVersion"'),
    text().replace(b'"flag":0', b'"flag":2'),
    text().replace(b'"code":11', b'"code":11,"code":361'),
    text().replace(b'"subVersion":"1"', b'"subVersion":"x"'),
    text().replace(b'"topic":"t",', b""),
    text(PROBE).replace(b'"subVersion"', b'"queueOffset" :"%d","subVersion"' % PROBE),
    text(opaque=PROBE).replace(b',"version"', b',"opaque" :%d,"version"' % PROBE),
    text()[:-1],
    text().replace(b'"t"', b'"%b"' % (b"x" * TEXT_SIZE_MAX)),
)
def test_what_other_numbers_would_change_otherwise_is_never_learnt(one: bytes) -> None:
    templates = PullTemplates()
    for _ in range(4):
        assert templates.read(one) is None


NUMBERS = st.integers(0, 10**18 - 1)
WORDS = st.text(st.characters(codec="utf-8", exclude_characters='"\\', exclude_categories=["Cc"]), max_size=20)


@given(NUMBERS, NUMBERS, st.integers(0, 10**9 - 1), st.sampled_from(["queueOffset", "commitOffset"]), WORDS)
def test_a_template_says_what_a_parser_says(offset: int, commit: int, opaque: int, first: str, topic: str) -> None:
    def with_topic(one: bytes) -> bytes:
        return one.replace(b'"t"', b'"%b"' % topic.encode())

    templates = taught(with_topic(text(first=first)))
    one = with_topic(text(offset, commit, opaque, first=first))
    found, expected = templates.read(one), parsed(one)
    assert found is not None
    assert (found.queue_offset, found.commit_offset) == (expected.queue_offset, expected.commit_offset)
    assert found.opaque == decode_command(Frame(0, one, b"")).opaque
    assert (found.header.topic, found.header.consumer_group) == (expected.topic, "g")


def test_no_more_templates_are_kept_than_their_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("orbitmq.broker.fast_path.pull_template.TEXTS_MAX", 3)
    templates = PullTemplates()
    for queue in range(10):
        one = text().replace(b'"3"', b'"%d"' % queue)
        assert templates.read(one) is templates.read(one) is None
        assert templates.read(one) is not None
    assert len(templates._headers) <= 3
    assert len(templates._seen) <= 3
