"""The conditions of one simulated life of a group, drawn from its seed: each seed has some faults and lacks others."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True)
class Weather:
    """Probabilities are of each occasion (message, write, round of the client); times are milliseconds."""

    nodes: int
    pre_vote: bool
    check_quorum: bool
    election_ticks: int
    batch_size_max: int
    inflight_max: int
    uncommitted_size_max: int
    clock_drift: float
    """Share by which a node's ticks are longer or shorter."""
    delay_max: int
    slow_share: float
    """Messages that take up to 300 ms, so that they are overtaken."""
    drop_share: float
    duplicate_share: float
    sync_max: int
    slow_sync_share: float
    """Writes that take up to 300 ms."""
    crash_in_write_share: float
    crash_after_vote_share: float
    crash_after_commit_share: float
    """Of a leader, as soon as it has applied something."""
    crash_share: float
    down_min: int
    down_max: int
    cut_share: float
    """How often, of the client's rounds, the links change."""
    burst_max: int
    read_share: float
    transfer_share: float
    compact_after: int
    """Applied entries that become a snapshot; 0 is never."""
    compact_keep: int
    report_share: float
    """Lost messages whose sender hears of it."""


def draw_weather(random: Random) -> Weather:
    """Return the weather of a seed."""

    def sometimes(share: float, value: float) -> float:
        return value if random.random() < share else 0.0

    is_quick = random.random() < 0.3
    election_ticks = random.choice([3, 5, 10])
    return Weather(
        nodes=random.choice([2, 3, 3, 3, 3, 4, 4, 5, 5] if random.random() < 0.95 else [1]),
        pre_vote=random.random() < 0.5,
        check_quorum=random.random() < 0.7,
        election_ticks=election_ticks,
        batch_size_max=random.choice([1, 10, 1 << 20]),
        inflight_max=random.choice([1, 2, 64]),
        uncommitted_size_max=random.choice([30, 1 << 20]),
        clock_drift=random.choice([0.0, 0.05, 0.2]),
        delay_max=random.choice([2, 5, 12] if election_ticks > 3 else [2, 3]),
        slow_share=sometimes(0.5, random.uniform(0.02, 0.2)),
        drop_share=sometimes(0.6, random.choice([0.02, 0.1, 0.2])),
        duplicate_share=sometimes(0.5, random.uniform(0.01, 0.2)),
        sync_max=random.choice([0, 2, 5] if election_ticks > 3 else [0, 2]),
        slow_sync_share=sometimes(0.5, random.uniform(0.01, 0.2)),
        crash_in_write_share=sometimes(0.5, random.uniform(0.0, 0.03)),
        crash_after_vote_share=sometimes(0.5, random.uniform(0.1, 0.9)),
        crash_after_commit_share=sometimes(0.3, random.uniform(0.05, 0.5)),
        crash_share=sometimes(0.6, random.uniform(0.0, 0.02)),
        down_min=1 if is_quick else 60,
        down_max=30 if is_quick else random.choice([200, 1_000, 3_000]),
        cut_share=sometimes(0.8, random.choice([0.02, 0.05, 0.1])),
        burst_max=random.choice([1, 3, 8]),
        read_share=sometimes(0.7, 0.3),
        transfer_share=sometimes(0.5, random.choice([0.02, 0.2])),
        compact_after=random.choice([0, 5, 20]),
        compact_keep=random.choice([0, 0, 3]),
        report_share=random.choice([0.0, 0.0, 0.5]),
    )
