import os

import pytest

from orbitmq.cli.messages.stdin import READ_SIZE, read_stdin


async def lines():
    return [line async for group in read_stdin() for line in group]


@pytest.mark.parametrize("is_pipe", [True, False])
@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b"", []),
        (b"one", [b"one"]),
        (b"one\n", [b"one"]),
        (b"one\r\ntwo\r", [b"one", b"two\r"]),
        (b"\n\n", [b"", b""]),
        (b"\xff\x00\n", [b"\xff\x00"]),
    ],
)
async def test_lines_end_with_a_line_feed_or_with_the_input(stdin, is_pipe, content, expected):
    stdin(content, is_pipe=is_pipe)
    assert await lines() == expected


async def test_a_line_may_be_longer_than_one_read(stdin):
    stdin(b"x" * (2 * READ_SIZE) + b"\ny\n", is_pipe=False)
    assert await lines() == [b"x" * (2 * READ_SIZE), b"y"]


async def test_lines_come_as_soon_as_they_are_whole(monkeypatch):
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb") as file:
        monkeypatch.setattr("sys.stdin", file)
        groups = aiter(read_stdin())
        os.write(writer, b"one\ntw")
        assert await anext(groups) == [b"one"]
        os.write(writer, b"o\n")
        assert await anext(groups) == [b"two"]
        os.close(writer)
        assert [group async for group in groups] == []
