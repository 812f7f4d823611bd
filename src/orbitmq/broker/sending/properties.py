"""The properties of a message, from what a sender wrote to what is stored. Pure.

This cluster's name comes in, and what trace consoles ask for; `__CRC32#`, which only the store can know, goes out.
Most properties are never parsed: their bytes say that they ask for nothing special (`plain`).

Source: Java SendMessageProcessor.sendMessage, docs/formats/commit_log.md.
"""

from __future__ import annotations

from collections.abc import Mapping

from orbitmq.broker.delivery.delay import level_of
from orbitmq.broker.timers.times import asks_for_time
from orbitmq.broker.transactions.messages import is_prepared
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, InvalidArgument, Rejected
from orbitmq.model.message import PropertyName
from orbitmq.wire.messages.properties import format_properties, is_text, parse_properties

_OF_THE_BATCH_ALONE = ("UNIQ_KEY", "WAIT", "TAGS", "KEYS")


class StoredProperties:
    """Turns senders' properties into the form that records keep.

    Args:
        cluster: this broker's cluster, which every stored message names.
        region_id: for trace consoles, as `trace_on`: consumers that trace look for both in what they got.
        has_lmq: messages may name LMQs.
    """

    def __init__(self, cluster: str, *, region_id: str, trace_on: bool, has_lmq: bool = False) -> None:
        self._has_lmq = has_lmq
        self._added = {
            PropertyName.MSG_REGION: region_id,
            PropertyName.TRACE_ON: str(trace_on).lower(),
            PropertyName.CLUSTER: cluster,
        }
        self._suffix = "".join(f"{name}\x01{value}\x02" for name, value in self._added.items()).encode()

    def plain(self, properties: bytes) -> bytes | None:
        """Return the stored form of properties that ask for nothing special, None for all others."""
        # Spelled out: a loop over four names costs a tenth of a microsecond each, for every message. A value that
        # happens to hold such a name takes the slow way, too, and comes to the same end.
        if (
            b"DELAY\x01" in properties
            or b"TIMER_DEL" in properties
            or b"TRAN_MSG\x01" in properties
            or b"CLUSTER\x01" in properties
            or b"_PRIORITY_\x01" in properties
            or b"TRACE_ON\x01" in properties  # with MSG_REGION, which comes together with it
            or b"__CRC32#\x01" in properties
            or b"INNER_MULTI_" in properties  # LMQs, and the numbers there
            or b"POP_CK\x01" in properties  # of a popped message that is sent on
            or not (properties.isascii() or is_text(properties))
        ):
            return None
        if properties and properties[-1] != 2:
            return properties + b"\x02" + self._suffix
        return properties + self._suffix

    def parse(self, encoded: bytes) -> dict[str, str]:
        """Parse properties into what is stored.

        Raises:
            HeaderError: no text.
            Rejected: 13, they ask for what this version does not have.
        """
        try:
            properties = parse_properties(encoded)
        except UnicodeDecodeError as error:
            raise HeaderError(f"properties: {error}") from None
        properties.pop(PropertyName.CRC32, None)  # the record's own checksum: a sender has none to give
        properties.pop(PropertyName.LMQ_OFFSETS, None)  # the store's, too
        properties.pop(PropertyName.POP_CK, None)  # what is popped again gets a handle of its own
        for name in self._added:
            properties.pop(name, None)
        return properties | self._added

    def shared_by_batch(self, encoded: bytes) -> dict[str, str]:
        """Return what a batch's header gives to every message that has none of its own. Raises as `parse`."""
        properties = self.parse(encoded)
        if level_of(properties) or asks_for_time(properties):
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be delayed")
        if is_prepared(properties):
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a batch cannot be a part of a transaction")
        self._refuse_lmq(properties)
        left_out = {*self._added, *_OF_THE_BATCH_ALONE}
        return {name: value for name, value in properties.items() if name not in left_out}

    def of_batch_message(self, encoded: bytes, shared: Mapping[str, str]) -> bytes:
        """Return the stored form of one message's properties in a batch. Raises as `parse`."""
        plain = self.plain(encoded)
        if plain is not None and not shared:
            return plain
        properties = self.parse(encoded)
        if level_of(properties) or asks_for_time(properties):
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a message of a batch cannot be delayed")
        if is_prepared(properties):
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a message of a batch cannot be a part of a transaction")
        self._refuse_lmq(properties)
        try:
            return format_properties({**shared, **properties})
        except InvalidArgument as error:
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, str(error)) from None

    def _refuse_lmq(self, properties: Mapping[str, str]) -> None:
        if self._has_lmq and PropertyName.LMQ_QUEUES in properties:
            raise Rejected(ResponseCode.MESSAGE_ILLEGAL, "a message of a batch cannot name light message queues")
