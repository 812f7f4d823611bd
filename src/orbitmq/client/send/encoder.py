"""Encodes what one client sends: each message gets an id that no other message has."""

from __future__ import annotations

from collections.abc import Mapping
from os import getpid

from orbitmq.client.send.request import COMPRESS_OVER, EncodedMessage, encode_message
from orbitmq.client.session.client_id import unique_key_seed
from orbitmq.client.session.session import ClientSession
from orbitmq.clock import now_ms
from orbitmq.model.message import Message
from orbitmq.wire.messages.message_id import UniqueKeys


class MessageEncoder:
    """Encodes the messages of one client.

    Args:
        session: knows the client's address, which the ids name, once it is open.
        compress_over: bodies of more bytes are compressed.
    """

    def __init__(self, session: ClientSession, compress_over: int = COMPRESS_OVER) -> None:
        self.compress_over = compress_over
        self._session = session
        self._ids: UniqueKeys | None = None

    @property
    def ids(self) -> UniqueKeys:
        """The ids, one after the other; they are used once the session is open."""
        if self._ids is None:
            self._ids = UniqueKeys(self._session.ip, getpid(), unique_key_seed())
        return self._ids

    def encode(
        self,
        message: Message,
        properties: Mapping[str, str] | None = None,
        *,
        compress_over: int | None = None,
        half_of: str | None = None,
    ) -> EncodedMessage:
        """Encode a message under an id of its own.

        Args:
            message: what to send.
            properties: what makes the message a request; see `request_properties`.
            compress_over: bytes; the client's when left out.
            half_of: the producer group that decides about the message: it is the half of a transaction.

        Raises:
            InvalidArgument: a property that only RocketMQ itself may set, or properties too long.
        """
        limit = self.compress_over if compress_over is None else compress_over
        return encode_message(message, self.ids.next(now_ms()), limit, properties, half_of=half_of)
