"""Changes of the route table that are asked for: applied immediately, or in slices behind those that concern the same."""

from __future__ import annotations

import logging
from typing import Any, Literal

from orbitmq.nameserver.registration.pipeline import answering
from orbitmq.nameserver.registration.queue import Concerns, PendingChange, RegistrationQueue
from orbitmq.nameserver.routing.route_table import RouteTable
from orbitmq.net.dispatch.handlers import LATER, Call, Later, Reply
from orbitmq.wire.slices import Slices

log = logging.getLogger(__name__)


class Changes:
    """Does changes in the order in which they came, as far as they concern the same brokers.

    Args:
        queue: those that are unfinished.
        route_table: tells its listeners after each slice.
    """

    def __init__(self, queue: RegistrationQueue, route_table: RouteTable) -> None:
        self._queue = queue
        self._route_table = route_table

    def answer(self, call: Call[Any], concerns: Concerns, slices: Slices[Reply]) -> Reply | Literal[Later.LATER]:
        """Do a change and return its answer; later, when it takes more than a slice, or has to wait.

        Raises:
            Rejected: too much waits already.
        """
        slices = self._route_table.publishing(slices)
        if not self._queue.has_before(concerns):
            try:
                next(slices)
            except StopIteration as end:
                reply: Reply = end.value
                return reply
        else:
            self._queue.refuse_if_full()
        job = PendingChange(call.connection.id, len(call.command.body), concerns, answering(call, slices))
        self._queue.append(job)
        return LATER

    def do(self, connection_id: int, concerns: Concerns, slices: Slices[None], *, is_immediate: bool = True) -> None:
        """Do a change without a waiter.

        Args:
            is_immediate: do its first slice in this turn of the event loop, if nothing is before it.
        """
        slices = guarded(self._route_table.publishing(slices))
        if is_immediate and not self._queue.has_before(concerns):
            try:
                next(slices)
            except StopIteration:
                return
        self._queue.append(PendingChange(connection_id, 0, concerns, slices))


def guarded(slices: Slices[None]) -> Slices[None]:
    """Do the slices; an error of ours is logged and ends them alone."""
    try:
        yield from slices
    except Exception:
        log.exception("a change of the route table failed")
