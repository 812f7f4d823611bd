"""Pops and notifications under way: those that find nothing wait, and are tried again when something has come.

Source: Java PopLongPollingService, NotificationProcessor.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable
from typing import NamedTuple

from orbitmq.broker.pop.held import HeldPop, HeldPops, Place
from orbitmq.codes import ResponseCode
from orbitmq.errors import Rejected
from orbitmq.net.dispatch.handlers import Reply
from orbitmq.net.dispatch.peer import Peer
from orbitmq.store import Store
from orbitmq.wire.command import Command

log = logging.getLogger(__name__)

_TURN_COUNT = 100
"""Requests that are tried again before others have the loop."""
_FORGOTTEN_COUNT = 100
"""Requests of closed connections that are forgotten in one turn."""
WAIT_MS_MAX = 60_000
"""Ours: no pop waits longer; a client that wants to asks again."""

Attempt = Callable[[], Reply | None]
"""Tries a request again; None: it found nothing."""


class Waiting(NamedTuple):
    """What is kept of a request that waits.

    Args:
        attempt: tries it again.
        give_up: returns the answer when its time is over.
        deadline_s: when that is, by the loop's clock.
    """

    peer: Peer
    command: Command
    attempt: Attempt
    give_up: Callable[[], Reply]
    deadline_s: float
    timer: list[asyncio.TimerHandle]


class WaitingPops:
    """The requests of one kind that wait.

    Args:
        held_max: of all; place_max: for the same queue, or for any, of one topic for one group.
        has_messages: says whether a request at a place would find something.
    """

    def __init__(
        self, store: Store, *, held_max: int, place_max: int, has_messages: Callable[[str, str, int], bool]
    ) -> None:
        self.held: HeldPops[Waiting] = HeldPops(held_max, place_max)
        self._store = store
        self._has_messages = has_messages
        self._ready: deque[HeldPop[Waiting]] = deque()
        self._is_listening = False
        self._is_forgetting = False

    def hold(
        self,
        peer: Peer,
        command: Command,
        place: Place,
        tag_codes: frozenset[int] | None,
        wait_ms: int,
        attempt: Attempt,
        give_up: Callable[[], Reply],
    ) -> bool:
        """Let a request wait for so long. False: too many wait."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + min(wait_ms, WAIT_MS_MAX) / 1000
        waiting = Waiting(peer, command._replace(ext_fields=None, body=b""), attempt, give_up, deadline_s, [])
        pop = HeldPop(place, tag_codes, peer, waiting)
        if not self.held.hold(pop):
            return False
        self._listen()
        waiting.timer.append(loop.call_at(deadline_s, self._expire, pop))
        return True

    def wake(self, topic: str, group: str, queue_id: int) -> None:
        """Try one request again that waits at a place: there is more than the pop before it took."""
        pop = self.held.take_one((topic, group, queue_id))
        if pop is not None:
            self._make_ready([pop])

    def wake_soon(self, topic: str, group: str, queue_id: int) -> None:
        """Do so in a later turn of the loop: the caller may be about to wait there."""
        asyncio.get_running_loop().call_soon(self.wake, topic, group, queue_id)

    def wake_overtaken(self) -> None:
        """Try one request at each place that has messages: the safety net under lost wake-ups."""
        for place in self.held.places:
            if self._has_messages(*place):
                self.wake(*place)

    def answer_topic(self, topic: str) -> None:
        """Try all requests for a topic that was deleted again: they are told that it is not there."""
        self._make_ready(self.held.take_topic(topic))

    def drop_connection(self, connection: Peer) -> None:
        """Forget the requests of a connection that closed, some in each turn; what they were woken for goes to others."""
        self.held.drop_connection(connection)
        if not self._is_forgetting:
            self._forget_some()

    def _forget_some(self) -> None:
        for pop in self.held.forget_some(_FORGOTTEN_COUNT):
            _cancel(pop)
        self._is_forgetting = self.held.has_closed
        if self._is_forgetting:
            asyncio.get_running_loop().call_soon(self._forget_some)
        elif not self._ready:
            self._stop_listening()

    def close(self) -> None:
        """Answer every request that waits, and let none wait from now on."""
        waiting = [*self._ready, *self.held.close()]
        self._ready.clear()
        for pop in waiting:
            self._answer(pop, pop.call.give_up())
        self._stop_listening()

    def _listen(self) -> None:
        """Listen for new messages as long as a pop waits: sends pay for it only then."""
        if not self._is_listening:
            self._is_listening = True
            self._store.on_arrived.append(self._arrived)

    def _stop_listening(self) -> None:
        if self._is_listening and not self.held.count:
            self._is_listening = False
            self._store.on_arrived.remove(self._arrived)

    def _arrived(self, topic: str, queue_id: int, queue_offset: int, tag_code: int) -> None:
        if woken := self.held.take_arrived(topic, queue_id, tag_code):
            self._make_ready(woken)

    def _make_ready(self, pops: list[HeldPop[Waiting]]) -> None:
        if pops and not self._ready:
            asyncio.get_running_loop().call_soon(self._try_ready)
        self._ready += pops

    def _try_ready(self) -> None:
        for _ in range(_TURN_COUNT):
            if not self._ready:
                break
            self._try_again(self._ready.popleft())
        if self._ready:
            asyncio.get_running_loop().call_soon(self._try_ready)
        else:
            self._stop_listening()

    def _try_again(self, pop: HeldPop[Waiting]) -> None:
        """Answer a request, or let it wait on for the rest of its time."""
        if not self.held.leave(pop):
            _cancel(pop)
            self.wake(*pop.place)
            return
        if pop.call.peer.has_room(0):
            reply = self._attempt(pop)
        else:
            # Its client does not read: another consumer is to have the messages.
            reply = pop.call.give_up()
            self.wake(*pop.place)
        if reply is not None:
            self._answer(pop, reply)
        elif asyncio.get_running_loop().time() >= pop.call.deadline_s or not self.held.hold(pop):
            self._answer(pop, pop.call.give_up())
        else:
            self._listen()

    @staticmethod
    def _attempt(pop: HeldPop[Waiting]) -> Reply | None:
        """Try a request. Whatever goes wrong is its own answer: the others are answered, too."""
        try:
            return pop.call.attempt()
        except Rejected as error:
            return Reply(error.code, remark=error.remark)
        except Exception as error:
            log.exception("a held pop of %s for %s failed", pop.place[0], pop.place[1])
            return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")

    def _expire(self, pop: HeldPop[Waiting]) -> None:
        if self.held.remove(pop):
            self._answer(pop, pop.call.give_up())
            if not self._ready:
                self._stop_listening()

    @staticmethod
    def _answer(pop: HeldPop[Waiting], reply: Reply) -> None:
        _cancel(pop)
        pop.call.peer.answer_later(pop.call.command, reply, was_pending=True)


def _cancel(pop: HeldPop[Waiting]) -> None:
    for timer in pop.call.timer:
        timer.cancel()
