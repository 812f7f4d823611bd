"""The blocks of one range: runs of offsets that are pulled side by side and handed on in order. Pure.

Each block is pulled by one request at a time that follows the broker's `nextBeginOffset`: a broker that gives 32 messages
per pull and one that gives a thousand are both kept busy, and no message is asked for twice.

Under a tag filter the whole range is one block: what a pull counts then is what matches, so that only its answer says how
far it came.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field

from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading.planning import Range

BLOCK_SIZE = 1024 * 1024
"""Bytes that a block is meant to have; what one pull asks for."""
BUFFER_SIZE_MAX = 8 * 1024 * 1024
"""Bytes that a block may hold while blocks before it are not complete; then it waits."""
FIRST_BLOCK_COUNT = 32
"""Messages of the first blocks, while nothing is known of their size."""


@dataclass
class Block:
    """A run of offsets that is pulled by one request at a time, whose opaque is kept while it is under way."""

    cursor: int
    end: int
    bodies: list[bytes | memoryview] = field(default_factory=list)
    size: int = 0
    opaque: int | None = None
    asked_at: int = -1
    """The offset that its last pull asked for."""
    received: memoryview | None = None
    """The body of the answer to that, where it was received into memory of the caller's."""

    @property
    def is_complete(self) -> bool:
        """True when every offset of the block has been pulled, or passed over by the broker."""
        return self.cursor >= self.end


class Blocks:
    """The blocks of one range that are under way.

    Args:
        wanted: the range.
        options: how many blocks at a time, how many messages in one pull, and whether tags are filtered.
    """

    def __init__(self, wanted: Range, options: ReadOptions) -> None:
        self._end = wanted.end
        self._next_begin = wanted.begin
        self._options = options
        self._blocks: deque[Block] = deque()
        self._record_size = 0.0
        """Bytes of a message, as the answers so far let expect; 0 before the first one."""

    @property
    def is_finished(self) -> bool:
        """True when every offset of the range was pulled and handed on."""
        return not self._blocks and self._next_begin >= self._end

    def is_head(self, block: Block) -> bool:
        """Return True if what is pulled for the block next is handed on immediately."""
        return bool(self._blocks) and self._blocks[0] is block

    def due(self) -> Iterator[Block]:
        """Yield the blocks that a pull should be sent for now."""
        while len(self._blocks) < self._options.pull_outstanding and self._next_begin < self._end:
            end = self._end if self._options.is_filtered else min(self._end, self._next_begin + self._block_count())
            self._blocks.append(Block(self._next_begin, end))
            self._next_begin = end
        for index, block in enumerate(self._blocks):
            # The first block goes on however much it holds: what it holds is handed on immediately.
            if block.opaque is None and not block.is_complete and (index == 0 or block.size < BUFFER_SIZE_MAX):
                yield block

    def add(self, block: Block, body: bytes | memoryview, next_begin_offset: int) -> None:
        """Keep the body of an answer to a block's pull."""
        count = next_begin_offset - block.cursor
        if count > 0:
            size = len(body) / count
            self._record_size = size if not self._record_size else (self._record_size + size) / 2
        block.bodies.append(body)
        block.size += len(body)

    def drain(self) -> Iterator[bytes | memoryview]:
        """Yield the bodies that are next in order; complete blocks end with that."""
        while self._blocks:
            head = self._blocks[0]
            yield from head.bodies
            head.bodies, head.size = [], 0
            if not head.is_complete:
                break
            self._blocks.popleft()

    def skip(self, offset: int) -> None:
        """Leave everything below `offset` behind that was not pulled yet: the broker has it no more."""
        for block in self._blocks:
            block.cursor = max(block.cursor, min(offset, block.end))
        self._next_begin = max(self._next_begin, min(offset, self._end))

    def forget_pulls(self) -> None:
        """Note that no pull is under way any more: their connection is gone."""
        for block in self._blocks:
            block.opaque = None

    def _block_count(self) -> int:
        if not self._record_size:
            return min(FIRST_BLOCK_COUNT, self._options.pull_count)
        return max(1, min(int(BLOCK_SIZE / self._record_size), self._options.pull_count))
