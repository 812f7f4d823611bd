"""The conditions of one life, drawn from its seed: each has some kinds of faults and lacks others."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random

FAULTS = ("kill", "power", "stop", "cut", "alone", "slow")


@dataclass(frozen=True)
class Weather:
    """Times are seconds."""

    name_servers: int
    brokers: int
    producers: int
    consumers: int
    senders: int
    send_pause_s: float
    consume_pause_s: float
    """How long a batch is under way in a consumer, at most."""
    flush: str
    sync_s_max: float
    jitter_s: float
    pause_s: float
    """Mean time between faults."""
    down_s: float
    """Mean time that a fault lasts."""
    faults: dict[str, float]
    """How often each kind is, beside the others."""

    @property
    def may_lose(self) -> bool:
        """Say whether what was acknowledged may be gone after a power cut."""
        return self.flush == "ASYNC_FLUSH" and self.faults["power"] > 0

    @classmethod
    def draw(cls, random: Random) -> Weather:
        """Draw one."""
        return cls(
            name_servers=random.choice([1, 2, 3]),
            brokers=random.choice([1, 1, 2, 3]),
            producers=random.choice([1, 2]),
            consumers=random.choice([1, 2, 3]),
            senders=random.choice([1, 4]),
            send_pause_s=random.choice([0.1, 0.5, 2]),
            consume_pause_s=random.choice([0, 0.1, 2]),
            flush=random.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
            sync_s_max=random.choice([0.001, 0.02, 0.5]),
            jitter_s=random.choice([0.0, 0.001, 0.05]),
            pause_s=random.choice([0.5, 2, 8]),
            down_s=random.choice([0.2, 2, 15]),
            faults={fault: random.choice([0, 0, 1, 1, 3]) for fault in FAULTS},
        )

    def draw_fault(self, random: Random) -> str:
        """Draw what goes wrong next; blank: nothing."""
        if not any(self.faults.values()):
            return ""
        return random.choices(list(self.faults), list(self.faults.values()))[0]
