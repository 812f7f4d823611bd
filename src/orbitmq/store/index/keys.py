"""The keys of messages, read from bytes of the CommitLog: what the index is made of. Pure.

A message has its unique key (UNIQ_KEY) and the words of KEYS; rolled back transactions have none. Source: Java
IndexService.buildIndex.
"""

from __future__ import annotations

from struct import Struct

from orbitmq.errors import CorruptRecord
from orbitmq.store.index.hashes import topic_hash
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import HEADS, MAGIC_BLANK, MAGIC_V1, MAGIC_V2, TOPIC_SIZE_V2

UNIQUE_KEY = b"UNIQ_KEY"
KEYS = b"KEYS"
_UNIQUE_NAME = UNIQUE_KEY + b"\x01"
_KEYS_NAME = KEYS + b"\x01"
_HEAD = Struct(">II20xqi16xq20xi")
"""Size, magic, physical offset, sys flag, store time and body size of a record with IPv4 hosts."""
_HOST_FLAGS = 0x30
_ROLLBACK = 0xC  # SysFlag.TRANSACTION_ROLLBACK
_TOPICS_MAX = 4096


class KeyReader:
    """Collects the keys of message after message, until they are taken.

    `keys`, `starts` (the hashes of their topics), `offsets` and `times_ms` have one item for each key.
    """

    def __init__(self) -> None:
        self.stored_at_ms = 0
        """Store time of the last message that was read, with or without keys."""
        self._topics: dict[bytes, int] = {}
        self.clear()

    def clear(self) -> None:
        """Begin with nothing."""
        self.keys: list[bytes] = []
        self.starts: list[int] = []
        self.offsets: list[int] = []
        self.times_ms: list[int] = []

    def read(self, data: bytes, place: int, keys_max: int) -> int:
        """Read the whole records at the start of `data`.

        Args:
            place: where `data` begins in the log, in bytes.
            keys_max: about so many keys are collected.

        Returns:
            How many bytes were read: up to the first record that does not end in `data`. A filler counts in full,
            also where it ends behind `data`.

        Raises:
            CorruptRecord: what begins there is no record; what stands before it was read.
        """
        unpack, head_size, find, topics = _HEAD.unpack_from, _HEAD.size, data.rfind, self._topics
        keys, starts, offsets, times_ms = self.keys, self.starts, self.offsets, self.times_ms
        at, end = 0, len(data)
        while end - at >= head_size and len(keys) < keys_max:
            size, magic, own_place, sys_flag, stored_at_ms, body_size = unpack(data, at)
            if magic == MAGIC_BLANK and size > 0:
                at += size
                break
            if own_place != place + at or (magic != MAGIC_V1 and magic != MAGIC_V2):
                raise CorruptRecord(place + at, "no record begins here")
            record_end = at + size
            if record_end > end:
                break
            topic_at = at + head_size + body_size
            if sys_flag & _HOST_FLAGS:
                topic_at, stored_at_ms = _unpack_long(data, at, place, sys_flag)
            if body_size < 0 or topic_at + 3 > record_end:
                raise CorruptRecord(place + at, "its lengths do not add up")
            if magic == MAGIC_V1:
                topic_start = topic_at + 1
                topic_end = topic_start + data[topic_at]
            else:
                topic_start = topic_at + 2
                topic_end = topic_start + TOPIC_SIZE_V2.unpack_from(data, topic_at)[0]
            properties_at = topic_end + 2
            if properties_at > record_end:
                raise CorruptRecord(place + at, "its lengths do not add up")
            if sys_flag & _ROLLBACK != _ROLLBACK:
                found = find(_UNIQUE_NAME, properties_at, record_end)
                has_keys = find(_KEYS_NAME, properties_at, record_end) >= 0
                if found >= 0 or has_keys:
                    topic = data[topic_start:topic_end]
                    start = topics.get(topic)
                    if start is None:
                        start = self._learn(topic)
                    stop = data.find(b"\x02", found, record_end)
                    key = data[found + 9 : stop]
                    if not has_keys and stop > 0 and key and (found == properties_at or data[found - 1] == 2):
                        keys.append(key)
                        starts.append(start)
                        offsets.append(place + at)
                        times_ms.append(stored_at_ms)
                    else:
                        self._take(data[properties_at:record_end], start, place + at, stored_at_ms)
            at = record_end
            self.stored_at_ms = stored_at_ms
        return at

    def _take(self, properties: bytes, start: int, place: int, stored_at_ms: int) -> None:
        """Take the keys of one message, in Java's order."""
        unique_key = find_property(properties, UNIQUE_KEY)
        found = [] if unique_key is None else [unique_key]
        found += [key for key in (find_property(properties, KEYS) or b"").split(b" ") if key]
        self.keys += found
        self.starts += [start] * len(found)
        self.offsets += [place] * len(found)
        self.times_ms += [stored_at_ms] * len(found)

    def _learn(self, topic: bytes) -> int:
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        start = self._topics[topic] = topic_hash(topic.decode("utf-8", "replace"))
        return start


def _unpack_long(data: bytes, at: int, place: int, sys_flag: int) -> tuple[int, int]:
    """Return where the topic stands, and the store time, of a record with an IPv6 host."""
    head = HEADS[(sys_flag & _HOST_FLAGS) >> 4]
    if len(data) - at < head.size:
        raise CorruptRecord(place + at, "its lengths do not add up")
    fields = head.unpack_from(data, at)
    return at + head.size + max(fields[-1], 0), fields[10]
