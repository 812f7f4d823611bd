"""Bytes that hostile peers send to a NameServer: injured requests of Java peers, lengths that lie, documents that explode."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from random import Random

from fuzz.mutation import mutate
from orbitmq.errors import FrameError
from orbitmq.wire.command import decode_command
from orbitmq.wire.frame import Frame, FrameDecoder

FRAMES_PER_CONNECTION = 25

_GOLDEN = Path(__file__).parents[1] / "golden"
# A forged 318 may switch things off, which is what it is for without access control.
_CODES = (100, 101, 102, 103, 104, 105, 106, 205, 206, 216, 217, 219, 224, 304, 311, 319, 322, 327, 901, 904)


def golden_requests() -> list[Frame]:
    """What Java peers sent, as far as a NameServer takes it."""
    found: list[Frame] = []
    for path in sorted(_GOLDEN.glob("*request*.bin")):
        frames = FrameDecoder().feed(path.read_bytes())
        found += [frame for frame in frames if decode_command(frame).code in _CODES]
    assert len(found) >= 10, "the captures of Java peers are there"
    return found


def injured(frames: list[Frame], random: Random) -> bytes:
    """Injure a request: mostly inside its header or body, so that it gets past the frame's own checks."""
    frame = random.choice(frames)
    header, body = frame.header, frame.body
    kind = random.random()
    if kind < 0.45:
        header = mutate(header, [other.header for other in frames], random)
    elif kind < 0.8:
        body = mutate(body or b"{}", [other.body for other in frames], random)
    mark = frame.serialize_type << 24 | len(header) & 0xFFFFFF
    whole = struct.pack(">II", 4 + len(header) + len(body), mark) + header + body
    return mutate(whole, [whole], random) if kind >= 0.8 else whole


def connections_of(frames: list[Frame], count: int, random: Random) -> Iterator[bytes]:
    """Yield what each connection sends: injured frames, `count` in all; one that ends its connection is the last on it.

    So the server gets to see every one of them.
    """
    while count > 0:
        sent: list[bytes] = []
        while len(sent) < min(count, FRAMES_PER_CONNECTION):
            sent.append(injured(frames, random))
            if _ends_connection(sent[-1]):
                break
        count -= len(sent)
        yield b"".join(sent)


def _ends_connection(data: bytes) -> bool:
    decoder = FrameDecoder()
    try:
        for frame in decoder.feed(data):
            decode_command(frame)
    except FrameError:
        return True
    return bool(decoder.partial)


DEEP = 100_000
BOMBS = {
    "deep list": b"[" * DEEP,
    "deep closed list": b"[" * DEEP + b"]" * DEEP,
    "deep object": b'{"a":' * DEEP,
    "deep object keys": b"{{" * DEEP,
    "a million keys": b"{" + b",".join(b'"k%d":0' % number for number in range(1_000_000)) + b"}",
    "duplicate keys": b"{" + b",".join([b'"topicConfigSerializeWrapper":{}'] * 100_000) + b"}",
    "huge integer": b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":' + b"9" * 100_000 + b"}}}",
    "huge bare key": b"{" + b"1" * 100_000 + b":0}",
    "many bare keys": b"{" + b",".join(b"%d:0" % number for number in range(100_000)) + b"}",
    "not a number": b'{"topicConfigSerializeWrapper":{"dataVersion":{"counter":NaN}}}',
    "bad UTF-8": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"\xff\xfe":{}}}}',
    "lone surrogate": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"\\ud800":{},"b":{}}}}',
    "unclosed text": b'{"a":"' + b"x" * 1_000_000,
    "backslashes": b'{"a":"' + b"\\" * 1_000_001,
    "wrong kinds": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":[],"U":{}}}}',
    "queues that are not numbers": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"perm":true},"U":{}}}}',
    "filter servers that are not texts": b'{"filterServerList":[1,{}]}',
    "a topic of a million attributes": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{"T":{"attributes":{'
    + b",".join(b'"k%d":0' % number for number in range(1_000_000))
    + b'}},"U":{}}}}',
    "a million topics": b'{"topicConfigSerializeWrapper":{"topicConfigTable":{'
    + b",".join(b'"k%d":{}' % number for number in range(1_000_000))
    + b"}}}",
    "lists": b'{"filterServerList":[' + b"[]," * 300_000 + b"[]]}",
}
"""Bodies of registrations."""


def _prefixed(size: int, mark: int, rest: bytes = b"") -> bytes:
    return struct.pack(">iI", size, mark & 0xFFFFFFFF) + rest


def _binary_frame(header: bytes) -> bytes:
    return _prefixed(4 + len(header), 1 << 24 | len(header), header)


_BINARY = struct.pack(">hBhii", 105, 0, 401, 1, 0)
_JSON = b'{"code":105,"language":"JAVA","version":401,"opaque":1,"flag":0}'
LIES = {
    "no length": _prefixed(0, 0),
    "a negative length": _prefixed(-1, 0),
    "the least length": _prefixed(-(2**31), 0),
    "the largest length": _prefixed(2**31 - 1, 0),
    "one more than the limit": _prefixed(16 * 2**20 + 1, 64),
    "a header larger than its frame": _prefixed(100, 101),
    "a header that leaves no room for its own length": _prefixed(100, 97),
    "a header of 16 MB": _prefixed(16 * 2**20, 0xFFFFFF),
    "an unknown kind of header": _prefixed(100, 7 << 24 | 10),
    "a negative header": _prefixed(100, -1),
    "a remark of 2 GB": _binary_frame(_BINARY + struct.pack(">i", 2**31 - 1)),
    "a remark of -1 bytes": _binary_frame(_BINARY + struct.pack(">i", -1)),
    "fields of 2 GB": _binary_frame(_BINARY + struct.pack(">ii", 0, 2**31 - 1)),
    "fields of -1 bytes": _binary_frame(_BINARY + struct.pack(">ii", 0, -1)),
    "a key longer than its fields": _binary_frame(_BINARY + struct.pack(">iih", 0, 6, 32767) + b"abcd"),
    "a value longer than its fields": _binary_frame(_BINARY + struct.pack(">iihci", 0, 8, 1, b"k", 2**31 - 1) + b"v"),
    "a JSON header that is cut": _prefixed(4 + 20, 20, _JSON[:20]),
}
"""Frames with a length that no frame has, in the frame itself or nested in its header; all of them end the connection."""
