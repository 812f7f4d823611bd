"""Frames to a broker as bytes, and its answers."""

from __future__ import annotations

from orbitmq.net.blocking import BlockingConnection
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import FrameDecoder


def exchange(address: str, frames: list[bytes]) -> list[Command]:
    """Send frames one by one over a plain socket, and return their answers."""
    answers = []
    with BlockingConnection(address, timeout_ms=10_000) as connection:
        for one in frames:
            connection._socket.sendall(one)
            decoder, got = FrameDecoder(), []
            while not got:
                got = decoder.feed(_read(connection))
            answers.append(decode_command(got[0]))
    return answers


def exchange_together(address: str, frames: list[bytes]) -> list[Command]:
    """Send frames by one write, and return their answers."""
    with BlockingConnection(address, timeout_ms=10_000) as connection:
        connection._socket.sendall(b"".join(frames))
        decoder, got = FrameDecoder(), []
        while len(got) < len(frames):
            got += decoder.feed(_read(connection))
    return [decode_command(one) for one in got]


def _read(connection: BlockingConnection) -> bytes:
    data = connection._socket.recv(65_536)
    assert data, "the broker closed the connection instead of answering"
    return data


def request_frame(text: bytes, body: bytes = b"") -> bytes:
    return (4 + len(text) + len(body)).to_bytes(4, "big") + len(text).to_bytes(4, "big") + text + body
