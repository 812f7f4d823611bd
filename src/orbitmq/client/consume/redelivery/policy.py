"""The rules of redelivery: where a message comes from again, after how long, and which attempt is its last. Pure.

Source: Java ConsumeMessageConcurrentlyService, ConsumeMessageOrderlyService.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from orbitmq.model.message import StoredMessage

MAX_ATTEMPTS: Final = 16
RETRY_DELAY_MS: Final = 1_000
RETRY_DELAY_MAX_MS: Final = 30_000
RECONSUME_TIMES_MAX: Final = 2**31 - 1
"""Java's Integer.MAX_VALUE: no limit."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RedeliveryPolicy:
    """What a consumer does with messages that were not done.

    Args:
        is_in_place: they come again from here, before anything else of their queue; otherwise their broker gets them
            back, stores them once more for the group, and delivers them later.
        max_attempts: deliveries of a message, the first one included; None for no limit.
        retry_delay_ms: before the second delivery in place; doubles up to half a minute.
    """

    is_in_place: bool = False
    max_attempts: int | None = MAX_ATTEMPTS
    retry_delay_ms: int = RETRY_DELAY_MS

    @property
    def max_reconsume_times(self) -> int:
        """The limit as brokers are told it: deliveries after the first one (Java: maxReconsumeTimes)."""
        return RECONSUME_TIMES_MAX if self.max_attempts is None else self.max_attempts - 1

    def is_last(self, message: StoredMessage) -> bool:
        """True when a message that fails now has failed for the last time."""
        return message.reconsume_times >= self.max_reconsume_times

    def delay_ms(self, message: StoredMessage) -> int:
        """Return how long to wait before a message that fails now comes again in place."""
        # 16 doublings are beyond every maximum; more of them would only make large numbers.
        delay_ms = self.retry_delay_ms << min(message.reconsume_times, 16)
        return min(delay_ms, max(self.retry_delay_ms, RETRY_DELAY_MAX_MS))
