"""Claims about a slave and a promoted broker, and the checks of them that need no broker. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from crash.replicas import Lost


def check_repeated(
    deliveries: Iterable[tuple[bytes, int]], seen_ms: Mapping[bytes, int], promotions: Sequence[int]
) -> int:
    """Check that no delayed message was delivered twice, but one whose delivery was lost with a master that was alone.

    Args:
        deliveries: bodies of delayed and timed messages in their topic, and when they were stored.
        seen_ms: when a reader was first given one: its delivery may have been lost with a master.
        promotions: since when the master was away, or the slave before it.

    Returns:
        How many deliveries a reader was given that are not there any more, and that came again.

    Raises:
        Lost: a message is there twice; or a delivery that came again was given to a reader while a slave had it.
    """
    times: dict[bytes, list[int]] = {}
    for body, stored_ms in deliveries:
        times.setdefault(body, []).append(stored_ms)
    twice = [body for body, stored in times.items() if len(stored) > 1]
    if twice:
        raise Lost(f"{len(twice)} of {len(times)} delayed messages were delivered twice, as {twice[0]!r}")
    count = 0
    for body, (stored_ms,) in times.items():
        before_ms = seen_ms.get(body, stored_ms)
        if before_ms >= stored_ms:
            continue
        count += 1
        away_ms = max((away_ms for away_ms in promotions if away_ms <= stored_ms), default=0)
        if before_ms < away_ms or not away_ms:
            raise Lost(
                f"{body!r} was given to a reader {(away_ms - before_ms) / 1_000:.1f} s before a slave was away, and came again"
            )
    return count


def check_prefix(copy: bytes, log: bytes) -> None:
    """Raises Lost: a slave's log is not a beginning of its master's."""
    if not log.startswith(copy):
        at = next(
            at
            for at, (mine, theirs) in enumerate(zip(copy, log.ljust(len(copy), b"\0"), strict=False))
            if mine != theirs
        )
        raise Lost(f"the slave's log has another byte at {at} than its master's")
