"""Records that were set aside because they cannot be read, decoded or stored again, by where they lie."""

from __future__ import annotations

from orbitmq.broker.service import BrokerService

KINDS = {
    "delay": "delayed messages were not delivered",
    "timer": "timed messages were not delivered",
    "half": "looks at half messages found none that can be read",
    "pop_log": "records of the revive topic were passed over",
    "pop_message": "popped messages were not delivered again",
}
"""What each count means to an operator."""


def bad_records(service: BrokerService) -> dict[str, int]:
    """Return the counts since the start, by kind; docs/explain/durability.md says what becomes of each."""
    pop = service.delivery.pop
    counts = (
        service.sends.delays.undeliverable_count,
        service.sends.timers.timers.lost_count,
        service.sends.transactions.unreadable_count,
        pop.revive_log.unreadable_count,
        pop.revival.unreadable_count,
    )
    return dict(zip(KINDS, counts, strict=True))


def told_of(service: BrokerService) -> list[str]:
    """Return the counts that are not 0 in words."""
    found = bad_records(service).items()
    return [
        f"{count} {KINDS[kind]}: they are damaged or gone, the log file has their places"
        for kind, count in found
        if count
    ]
