import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.errors import FrameError
from orbitmq.wire.frame import FRAME_SIZE_MAX, HEADER_SIZE_MAX, Frame, FrameDecoder, count_frames, sniff_foreign


def frame_bytes(header: bytes = b"{}", body: bytes = b"", serialize_type: int = 0) -> bytes:
    return struct.pack(">II", 4 + len(header) + len(body), serialize_type << 24 | len(header)) + header + body


frames = st.builds(Frame, st.integers(0, 1), st.binary(max_size=64), st.binary(max_size=300))


@given(st.lists(frames, max_size=8), st.data())
def test_frames_survive_any_slicing(sent, data):
    stream = b"".join(frame_bytes(frame.header, frame.body, frame.serialize_type) for frame in sent)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(stream)), max_size=12)))
    decoder, got = FrameDecoder(), []
    for start, end in zip([0, *cuts], [*cuts, len(stream)], strict=True):
        got += decoder.feed(stream[start:end])
    assert got == sent
    assert not decoder.partial


@given(frames, st.binary(max_size=7))
def test_bytes_after_a_frame_wait_for_the_rest_of_theirs(frame, trailing):
    trailing = trailing.replace(b"\xff", b"\x00")
    decoder = FrameDecoder()
    assert decoder.feed(frame_bytes(frame.header, frame.body, frame.serialize_type) + trailing) == [frame]
    assert bytes(decoder.partial) == trailing


@each_case(
    (struct.pack(">iI", 0, 0), "frame of 0 bytes"),
    (struct.pack(">iI", 3, 0), "frame of 3 bytes"),
    (struct.pack(">iI", -1, 0), "frame of -1 bytes"),
    (struct.pack(">iI", 2**31 - 1, 0), "frame of 2147483647 bytes"),
    (struct.pack(">iI", FRAME_SIZE_MAX + 1, 0), "frame of"),
    (struct.pack(">iI", 10, 7), "header of 7 bytes in a frame of 10"),
    (struct.pack(">iI", HEADER_SIZE_MAX + 5, HEADER_SIZE_MAX + 1), "limit"),
    (struct.pack(">iI", 10, 2 << 24), "header type 2"),
)
def test_a_declared_length_that_no_frame_has_is_refused_before_its_bytes_come(prefix, word):
    with pytest.raises(FrameError, match=word):
        FrameDecoder().feed(prefix)


def test_a_bogus_length_is_refused_although_it_arrives_byte_by_byte():
    decoder = FrameDecoder()
    prefix = struct.pack(">iI", 2**31 - 1, 0)
    assert [decoder.feed(prefix[place : place + 1]) for place in range(7)] == [[]] * 7
    with pytest.raises(FrameError):
        decoder.feed(prefix[7:])


def test_the_largest_frame_passes():
    body = bytes(FRAME_SIZE_MAX - 4 - 2)
    decoder, stream, got = FrameDecoder(), frame_bytes(b"{}", body), []
    for start in range(0, len(stream), 1 << 20):
        got += decoder.feed(stream[start : start + (1 << 20)])
    assert len(got) == 1
    assert len(got[0].body) == len(body)


@each_case(
    (b"PRI * HTTP/2.0\r\n", "HTTP/2"),
    (b"GET / HTTP/1.1\r\n", "HTTP"),
    (b"SSH-2.0-OpenSSH", "SSH"),
    (b"\x16\x03\x01\x02\x00", "TLS"),
    (b"\x03\x00\x00\x2f", "RDP"),
)
def test_bytes_of_another_protocol_are_named(first, name):
    assert sniff_foreign(first) == name
    with pytest.raises(FrameError, match=name):
        FrameDecoder().feed(first + bytes(8))


def test_a_real_frame_is_not_taken_for_another_protocol():
    assert sniff_foreign(frame_bytes()) is None


@given(st.lists(frames, max_size=8), st.binary(max_size=300))
def test_whole_frames_are_counted_by_their_lengths(sent, trailing):
    stream = b"".join(frame_bytes(frame.header, frame.body, frame.serialize_type) for frame in sent)
    assert count_frames(stream + trailing, len(stream)) == len(sent)


@each_case(1, 7, 64, 1000)
def test_a_buffer_that_is_used_again_changes_no_frame(size):
    sent = [Frame(0, b"{}", bytes([number]) * number) for number in range(100)]
    stream = b"".join(frame_bytes(frame.header, frame.body, frame.serialize_type) for frame in sent)
    decoder, buffer, got = FrameDecoder(), bytearray(size), []

    for start in range(0, len(stream), size):
        part = stream[start : start + size]
        buffer[: len(part)] = part
        got += decoder.feed(memoryview(buffer)[: len(part)])
        buffer[:] = b"\xff" * size
    assert got == sent
