"""The keys of messages, read from bytes of the CommitLog: what the index is made of. Pure.

A message has its unique key (UNIQ_KEY) and the words of KEYS; rolled back transactions have none. Source: Java
IndexService.buildIndex.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate, takewhile
from struct import Struct

from orbitmq.errors import CorruptRecord
from orbitmq.store.index.hashes import topic_hash
from orbitmq.wire.messages.properties import find_property
from orbitmq.wire.messages.record import HEADS, MAGIC_BLANK, MAGIC_V1, MAGIC_V2

UNIQUE_KEY = b"UNIQ_KEY"
KEYS = b"KEYS"
_UNIQUE_NAME = UNIQUE_KEY + b"\x01"
_KEYS_NAME = KEYS + b"\x01"
_HEAD = Struct(">II20xqi16xq20xI")
"""Size, magic, physical offset, sys flag, store time and body size of a record with IPv4 hosts."""
_HOST_FLAGS = 0x30
_ROLLBACK = 0xC  # SysFlag.TRANSACTION_ROLLBACK
_MAGIC_AND_FLAGS = Struct(">4xI28xi")
_UNUSUAL = _HOST_FLAGS | _ROLLBACK
_TOPICS_MAX = 4096

NotedKeys = tuple[int, int, int, str, bytes, bytes]
"""Place and size of a message, its store time, its topic, its unique key, and the words of KEYS."""
NOTED_SIZE_MAX = 64
"""Characters of a key, or of all words, that may be noted: longer ones are read from the log in slices of some bytes."""


class KeyReader:
    """Collects the keys of message after message, until they are taken.

    `keys`, `starts` (the hashes of their topics), `offsets` and `times_ms` have one item for each key.
    """

    def __init__(self) -> None:
        self._topics: dict[bytes, int] = {}
        self.clear()

    def clear(self) -> None:
        """Begin with nothing."""
        self.keys: list[bytes] = []
        self.starts: list[int] = []
        self.offsets: list[int] = []
        self.times_ms: list[int] = []

    def take_noted(self, noted: Sequence[NotedKeys], place: int, end: int) -> tuple[int, int]:
        """Take the keys of messages that were noted when they were stored: half of what reading them again takes.

        Args:
            place: where the first one has to lie, in bytes of the log.
            end: how far the log may be read.

        Returns:
            How many messages follow one another from `place` and do not reach behind `end`, and their bytes of the log.
        """
        offsets, sizes, times_ms, topics, keys, words = zip(*noted, strict=True)
        *places, noted_end = accumulate(sizes, initial=place)
        if noted_end > end or places != list(offsets):
            following = zip(places, offsets, sizes, strict=True)
            count = sum(1 for _ in takewhile(lambda one: one[0] == one[1] and one[0] + one[2] <= end, following))
            return self.take_noted(noted[:count], place, end) if count else (0, 0)
        is_one_topic = topics.count(topics[0]) == len(topics)
        starts = [topic_hash(topics[0])] * len(topics) if is_one_topic else list(map(topic_hash, topics))
        if any(words):
            for key, others, start, offset, time_ms in zip(keys, words, starts, places, times_ms, strict=True):
                self._add([key, *others.split(b" ")], start, offset, time_ms)
        else:
            self.keys, self.starts, self.offsets, self.times_ms = list(keys), starts, places, list(times_ms)
        return len(places), noted_end - place

    def read(self, data: bytes, place: int, keys_max: int) -> int:
        """Read the whole records at the start of `data`.

        Args:
            place: where `data` begins in the log, in bytes.
            keys_max: about so many keys are collected.

        Returns:
            How many bytes were read: up to the first record that does not end in `data`; a filler counts in full.

        Raises:
            CorruptRecord: what begins there is no record; what stands before it was read.
        """
        unpack, head_size, topics, keys = _HEAD.unpack_from, _HEAD.size, self._topics, self.keys
        find, find_last = data.find, data.rfind
        add_key, add_start, add_offset, add_time = (
            keys.append, self.starts.append, self.offsets.append, self.times_ms.append
        )  # fmt: skip
        at, end = 0, len(data)
        has_keys = find(_KEYS_NAME) >= 0  # most messages have none: one look at all of them
        while end - at >= head_size and len(keys) < keys_max:
            size, magic, own_place, sys_flag, stored_at_ms, body_size = unpack(data, at)
            record_end, topic_start = at + size, at + head_size + body_size + 1
            if magic == MAGIC_V1 and own_place == place + at and not sys_flag & _UNUSUAL:
                if record_end > end:
                    break
                if topic_start + 2 > record_end:
                    raise CorruptRecord(own_place, "its lengths do not add up")
                topic_end = topic_start + data[topic_start - 1]
            elif magic == MAGIC_BLANK and size > 0:
                at = record_end
                break
            elif own_place != place + at or (magic != MAGIC_V1 and magic != MAGIC_V2):
                raise CorruptRecord(place + at, "no record begins here")
            elif record_end > end:
                break
            else:
                topic_start, topic_end, stored_at_ms = _find_topic(data[at:record_end], own_place)
                topic_start += at
                topic_end += at
            properties_at = topic_end + 2
            if properties_at > record_end:
                raise CorruptRecord(own_place, "its lengths do not add up")
            at = record_end
            if sys_flag & _ROLLBACK == _ROLLBACK:
                continue
            found = find_last(_UNIQUE_NAME, properties_at, record_end)
            keyed = find_last(_KEYS_NAME, properties_at, record_end) if has_keys else -1
            if found < 0 and keyed < 0:
                continue
            topic = data[topic_start:topic_end]
            start = topics.get(topic)
            if start is None:
                start = self._learn(topic)
            stop = find(b"\x02", found, record_end)
            # Nearly always: names stand behind a separator, and values before one.
            is_plain = stop > found + 9 >= 9 and (found == properties_at or data[found - 1] == 2)
            if is_plain and keyed < 0:
                add_key(data[found + 9 : stop])
                add_start(start)
                add_offset(own_place)
                add_time(stored_at_ms)
                continue
            words_end = find(b"\x02", keyed, record_end)
            if is_plain and words_end > keyed + 5 and (keyed == properties_at or data[keyed - 1] == 2):
                words = [data[found + 9 : stop], *data[keyed + 5 : words_end].split(b" ")]
                self._add(words, start, own_place, stored_at_ms)
            else:
                self._take(data[properties_at:record_end], start, own_place, stored_at_ms)
        return at

    def _take(self, properties: bytes, start: int, place: int, stored_at_ms: int) -> None:
        """Take the keys of one message, in Java's order."""
        unique_key = find_property(properties, UNIQUE_KEY)
        found = [] if unique_key is None else [unique_key]
        found += (find_property(properties, KEYS) or b"").split(b" ")
        self._add(found, start, place, stored_at_ms)

    def _add(self, found: list[bytes], start: int, place: int, stored_at_ms: int) -> None:
        if b"" in found:  # two spaces
            found = [key for key in found if key]
        self.keys += found
        self.starts += [start] * len(found)
        self.offsets += [place] * len(found)
        self.times_ms += [stored_at_ms] * len(found)

    def _learn(self, topic: bytes) -> int:
        if len(self._topics) >= _TOPICS_MAX:
            self._topics.clear()
        start = self._topics[topic] = topic_hash(topic.decode("utf-8", "replace"))
        return start


def _find_topic(record: bytes, place: int) -> tuple[int, int, int]:
    """Return where the topic of an unusual record starts and ends, and the store time."""
    if len(record) < HEADS[0].size:
        raise CorruptRecord(place, "its lengths do not add up")
    magic, sys_flag = _MAGIC_AND_FLAGS.unpack_from(record)
    head = HEADS[(sys_flag & _HOST_FLAGS) >> 4]
    if len(record) < head.size:
        raise CorruptRecord(place, "its lengths do not add up")
    fields = head.unpack_from(record)
    size_at, size_size = head.size + fields[-1], 1 if magic == MAGIC_V1 else 2
    if fields[-1] < 0 or size_at + 3 > len(record):
        raise CorruptRecord(place, "its lengths do not add up")
    topic_start = size_at + size_size
    return topic_start, topic_start + int.from_bytes(record[size_at:topic_start], "big"), fields[10]
