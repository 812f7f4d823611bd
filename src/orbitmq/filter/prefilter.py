"""A prefilter: one search over many messages for those that an expression may match. Pure.

What passes is asked one by one afterwards, so that a prefilter may let through too much, but never too little.

See docs/adr/0014-sql92-prefilter.md.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Sequence
from functools import cached_property
from itertools import accumulate

END = b"\x02"
"""Behind each value; also put between two messages."""


class Prefilter:
    """Lets messages through whose encoded properties hold something.

    Args:
        pattern: a regular expression of what a matching message holds; a value's end is `END`. It is compiled when it is
            needed at first: most expressions never meet many messages in one read.
    """

    def __init__(self, pattern: bytes) -> None:
        self.pattern = pattern

    @cached_property
    def _search(self) -> re.Pattern[bytes]:
        return re.compile(self.pattern)

    def passing(self, messages: Sequence[bytes]) -> list[int]:
        """Return the indexes, ascending, of the messages that may match; `messages` are encoded properties."""
        places = [found.start() for found in self._search.finditer(END.join([*messages, b""]))]
        if not places:
            return []
        ends = list(accumulate(map((1).__add__, map(len, messages))))
        return sorted({bisect_right(ends, place) for place in places})


def text_prefilter(name: bytes, text: bytes) -> Prefilter:
    """Return the prefilter of `name = 'text'`."""
    return _value_prefilter(name, re.escape(text) + END)


def number_prefilter(name: bytes, number: int) -> Prefilter:
    """Return the prefilter of `name = number`: its plain digits, or what may be another way to write it."""
    return _value_prefilter(name, rb"(?:%b\x02|[^0-9]|0[^\x02]|[1-9][0-9]*[^0-9\x02])" % re.escape(b"%d" % number))


def list_prefilter(name: bytes, texts: Sequence[bytes]) -> Prefilter:
    """Return the prefilter of `name IN (texts)`."""
    # A text with an end inside equals no value, and what it finds might reach into the next message.
    possible = [re.escape(text) for text in texts if END not in text]
    return _value_prefilter(name, b"(?:" + b"|".join(possible) + rb")\x02" if possible else rb"(?!)")


def _value_prefilter(name: bytes, value: bytes) -> Prefilter:
    # The name may be the end of a longer one: what stands before it is not asked, because a search is as quick as its pattern
    # has bytes that never vary at its beginning.
    return Prefilter(re.escape(name + b"\x01") + value)
