"""Claims about a slave and a promoted broker, and the checks of them that need no broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise

from crash.replicas import Lost

IS_WHAT_WAS_READ_CLAIMED = True
"""Claim that what a reader was given on the master is on the promoted broker, too: docs/explain/acknowledgements.md does not
promise it yet."""
REPEATED_S = 0
"""A promotion repeats deliveries of delayed and timed messages of so many seconds before it, and no others: the master writes each
second how far its timers are, which themselves go by seconds, and a slave asks each second; a busy machine adds to that."""


def check_repeated(
    deliveries: Iterable[tuple[bytes, int]], seen_ms: Mapping[bytes, int], promotions: Sequence[int]
) -> tuple[int, float]:
    """Check that only deliveries of the last seconds before a promotion were repeated.

    Args:
        deliveries: bodies of delayed and timed messages in their topic, and when they were stored.
        seen_ms: when a reader was first given one: its delivery may have been lost with a master.
        promotions: since when the master was away, or the slave before it.

    Returns:
        How many deliveries were repeated, and the most seconds that one of these came before a promotion.

    Raises:
        Lost: an older one was repeated, or one without a promotion.
    """
    times: dict[bytes, list[int]] = {}
    for body, stored_ms in deliveries:
        times.setdefault(body, []).append(stored_ms)
    count, longest_s = 0, 0.0
    for body, stored in times.items():
        seen = [at_ms for at_ms in [seen_ms.get(body, max(stored))] if at_ms < min(stored)]
        for before_ms, at_ms in pairwise(sorted([*stored, *seen])):
            away_ms = max((away_ms for away_ms in promotions if away_ms <= at_ms), default=0)
            if not away_ms:
                raise Lost(f"{body!r} was delivered twice, and no slave was promoted before")
            count, longest_s = count + 1, max(longest_s, (away_ms - before_ms) / 1_000)
            if longest_s > REPEATED_S:
                raise Lost(
                    f"{body!r} was delivered {longest_s:.1f} s before a promotion, and again"
                    f" {(at_ms - away_ms) / 1_000:.1f} s after it"
                )
    return count, longest_s


def check_prefix(copy: bytes, log: bytes) -> None:
    """Raises Lost: a slave's log is no beginning of its master's."""
    if not log.startswith(copy):
        at = next(
            at
            for at, (mine, theirs) in enumerate(zip(copy, log.ljust(len(copy), b"\0"), strict=False))
            if mine != theirs
        )
        raise Lost(f"the slave's log has another byte at {at} than its master's")
