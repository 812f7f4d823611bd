"""The newest offsets of a stream's queues, asked for no more often than the poll interval allows."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterable, Mapping
from typing import TypeVar

from orbitmq.errors import ClientError, ConnectionFailed, NoNameServer, RemoteRefused, RequestTimeout, RouteNotFound
from orbitmq.model.route import MessageQueue
from orbitmq.spark.offsets import Bound, Offsets, queue_names
from orbitmq.spark.options import ReadOptions
from orbitmq.spark.reading.checkpoint import Origin
from orbitmq.spark.reading.fan_out import Rounds
from orbitmq.spark.reading.metadata_client import ROUND_S, MetadataClient, QueueAddresses, QueuesNotTold, is_passing

log = logging.getLogger(__name__)

T = TypeVar("T")

IDLE_POLLS, IDLE_POLL_S = 20, 0.5
"""After so many polls that brought nothing new brokers are asked less and less often, down to this interval."""
DOUBLINGS_MAX = 10
"""From the shortest interval but 0, a millisecond, to more than the longest."""
PAUSE_S = 1.0
LOG_EVERY_S = 10.0
"""What is tried again and again, as with a broker that does not answer, is told of this often, at most."""
FIRST_ANSWER_S = 10.0
"""So long NameServers of which none has answered yet are waited for, at most: longer than a restart takes, and they may be misspelt."""
ROUTE_POLL_S = 1.0
"""New queues and brokers are looked for this often, at most."""


def patiently(ask: Callable[[], T], options: ReadOptions, what: str, client: MetadataClient) -> T:
    """Return what `ask` returns, and ask again while a server is away or busy, until the time of `wait_s` is over.

    Args:
        what: is not known until then; stands in the log.
        client: what `ask` asks with.

    Raises:
        RouteNotFound: a topic that was named does not exist; it may be misspelt, and is not waited for.
        ClientError: a refusal for good, or the time is over.
    """
    began_at = time.monotonic()
    told = ""
    while True:
        try:
            return ask()
        except ClientError as error:
            time_s = wait_s(error, options, client)
            if not _is_passing(error) or time.monotonic() - began_at >= time_s:
                raise
            if told != (told := str(error)):
                log.warning("%s: not known yet, asked for %g s: %s", what, time_s, told)
        time.sleep(PAUSE_S)


def wait_s(error: ClientError, options: ReadOptions, client: MetadataClient) -> float:
    """Return how many seconds servers are waited for: `brokerTimeoutMs`, but less for NameServers of which none has answered yet."""
    timeout_s = options.broker_timeout_ms / 1000
    is_first = isinstance(error, NoNameServer) and not client.is_connected
    return min(timeout_s, FIRST_ANSWER_S) if is_first else timeout_s


class OffsetPoller:
    """Polls NameServers for a stream's queues and brokers for the ends of them.

    Args:
        client: asks them; closed with the poller.
        options: which topics, and how often brokers are asked.
    """

    def __init__(self, client: MetadataClient, options: ReadOptions) -> None:
        self.queues: QueueAddresses = {}
        """Every queue that was found so far: one that has left its route may come back."""
        self._left_at: dict[MessageQueue, float] = {}
        """Those that left their topic's route, which names others of their broker: since when, infinite once `take_removed` told."""
        self._client = client
        self._options = options
        self._latest: Offsets = {}
        self._committed: dict[MessageQueue, int] = {}
        self._sizes: dict[MessageQueue, float] = {}
        self._missing: Mapping[str, RouteNotFound] = {}
        """Named topics that NameServers did not know when they were asked last."""
        self._told_unknown: set[str] = set()
        self._target: Offsets | None = None
        self._idle_count = 0
        """Polls in a row that brought nothing new."""
        self._routing: Rounds[QueueAddresses] = Rounds()
        self._began_at = time.monotonic()
        self._logged_at: dict[str, float] = {}
        self._asked_at = self._routed_at = -float("inf")

    @property
    def latest(self) -> Offsets:
        """The newest offsets known; those at which the run ends once `fix_end` was called."""
        return self._latest if self._target is None else self._target

    @property
    def is_fresh(self) -> bool:
        """True while the poll interval since the last answers is not over."""
        return self._target is not None or time.monotonic() < self._due_at

    def refresh(self) -> None:
        """Ask for the latest offsets, not before the poll interval is over: waiting is what keeps an idle query calm.

        The answer is always newer than the question: `processAllAvailable` relies on that. A broker that does not
        answer stops only its own queues: they stay where they are until it is back.
        """
        if self._target is not None:
            return
        time.sleep(max(0.0, self._due_at - time.monotonic()))
        now = time.monotonic()
        if now - self._routed_at >= ROUTE_POLL_S:
            self._routed_at = now
            self._look_for_queues(now)
        latest = self._client.latest(self.readable, unreachable=self._log_unreachable, gone=self._log_gone)
        self._idle_count = self._idle_count + 1 if latest == self._latest else 0
        self._latest = latest
        self._asked_at = time.monotonic()

    def _look_for_queues(self, now: float) -> None:
        """Ask NameServers, which are needed for new queues only: a stream that knows its queues does not wait for them."""
        found = self._routing.ask({"NameServer": self.find_queues}, ROUND_S if self.queues else None)["NameServer"]
        if not isinstance(found, Exception):
            return
        # A query that starts has no queues yet: its topic may have been deleted.
        if not isinstance(found, ClientError):
            raise found
        if not self.queues and now - self._began_at >= wait_s(found, self._options, self._client):
            raise found
        self._log("no routes now, going on with the queues known", found)

    def refix(self, queues: Iterable[MessageQueue]) -> None:
        """Ask once more where these queues end, in a run whose end is fixed: they ended too early to be true."""
        assert self._target is not None
        time.sleep(self._options.offset_poll_ms / 1000)
        wanted = {queue: self.queues[queue] for queue in queues if queue in self.queues}
        latest = self._client.latest(wanted, unreachable=self._log_unreachable, gone=self._log_gone)
        self._target = {**self._target, **latest}

    def fix_end(self) -> None:
        """Let the run end at the latest offsets of now: what arrives later belongs to the next one.

        Raises:
            RouteNotFound: a topic that was named does not exist; it may be misspelt, and is not waited for.
            ClientError: a server that has to be asked does not answer, and the time is over.
        """
        # The run is to read everything that is there now: it needs the word of every broker.
        self._target = self.find_ends()

    def absent(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return those of `queues` whose broker holds none of their topic's queues, as far as NameServers have told.

        Its lease may be over while it is away, and then routes know nothing of it.
        """
        held = {(queue.topic, queue.broker_name) for queue in self.queues}
        return {queue for queue in queues if (queue.topic, queue.broker_name) not in held}

    def wait_for_absent(self, queues: Iterable[MessageQueue]) -> set[MessageQueue]:
        """Return those of `queues` that are `absent`; in a run whose end is fixed, once the time for them is over.

        Raises: as `wait_for_queues`.
        """
        absent = self.absent(queues)
        if absent and self._target is not None:
            self.wait_for_queues(absent)
            self.refix(absent)
            absent = self.absent(absent)
        if absent:
            self._log("no broker holds queues that were read before, they wait", queue_names(absent))
        return absent

    def find_ends(self) -> Offsets:
        """Return where queues end, of a query that begins again: its topics may have been deleted meanwhile."""

        def ask() -> Offsets:
            self.find_queues()
            return self._client.latest(self.readable, gone=self._log_gone)

        return patiently(ask, self._options, "where queues end", self._client)

    def resolve(self, bound: Bound, option: str) -> Offsets:
        """Return the offset of each queue that `bound` means now; see `MetadataClient.resolve`."""

        def ask() -> Offsets:
            self.queues = self.queues | self._client.queues_at_start(self._options)
            return self._client.resolve(self.queues, bound, option)

        return patiently(ask, self._options, option, self._client)

    @property
    def is_fixed(self) -> bool:
        """True once `fix_end` was called."""
        return self._target is not None

    def record_sizes(self, begins: Offsets) -> dict[MessageQueue, float]:
        """Return the mean size of the next messages of queues; of those that cannot be asked the last that was known."""
        try:
            self._sizes |= self._client.record_sizes(self.queues or self.find_queues(), begins, self._options.group)
        except ClientError as error:
            self._log("sizes of messages are not updated", error)
        return self._sizes

    def commit(self, offsets: Offsets) -> None:
        """Commit offsets for the query's group. Brokers that cannot be reached get later ones: no query fails for it."""
        changed = {queue: offset for queue, offset in offsets.items() if self._committed.get(queue) != offset}
        if not changed:
            return
        try:
            if not self.queues:
                self.find_queues()
            self._client.commit(self.readable, self._options.group, changed)
        except ClientError as error:
            self._log(f"offsets of group {self._options.group} are not committed", error)
            return
        self._committed |= changed

    def earliest(self, queues: set[MessageQueue]) -> Offsets:
        """Return where those of `queues` begin that were found."""
        wanted = {queue: self.queues[queue] for queue in queues if queue in self.queues}

        def ask() -> Offsets:
            return self._client.earliest(wanted, gone=self._log_gone)

        return patiently(ask, self._options, "where queues begin", self._client) if wanted else {}

    def ends_too(self, queues: Iterable[MessageQueue], *, waits: bool) -> Offsets:
        """Return where queues end that no route names now, of those whose brokers still hold other queues of their topic.

        Args:
            waits: brokers that do not tell are asked until `brokerTimeoutMs` is over; False: their queues are left out.

        Raises:
            QueuesNotTold: a broker did not tell in that time.
        """
        brokers = {(queue.topic, queue.broker_name): address for queue, address in self.queues.items()}
        held = {q: brokers[q.topic, q.broker_name] for q in queues if (q.topic, q.broker_name) in brokers}
        if not held:
            return {}

        def ask() -> Offsets:
            return self._client.latest(held, unreachable=None if waits else self._log_unreachable, gone=self._log_gone)

        return patiently(ask, self._options, "where queues end that left their route", self._client) if waits else ask()

    def origins(self, queues: Iterable[MessageQueue]) -> dict[MessageQueue, Origin | None]:
        """Return what those of `queues` hold first that were found and can be asked; None for one that holds nothing."""
        wanted = {queue: self.queues[queue] for queue in queues if queue in self.queues}
        return self._client.origins(wanted) if wanted else {}

    def find_queues(self) -> QueueAddresses:
        """Ask NameServers for the queues now; return them with all that were found before.

        Raises:
            RouteNotFound: none of the topics that were named exists.
            NoNameServer: none answered.
        """
        missing: dict[str, RouteNotFound] = {}
        found, now = self._client.queues_of(self._options, missing.__setitem__), time.monotonic()
        self._missing = missing
        if missing:
            self._log("topics have no route now, going on with the others", "; ".join(map(str, missing.values())))
        self.queues = self.queues | found
        held = {(queue.topic, queue.broker_name) for queue in found}
        left = (q for q in self.queues if q not in found and (q.topic, q.broker_name) in held)
        self._left_at = {queue: self._left_at.get(queue, now) for queue in left}
        return self.queues

    @property
    def readable(self) -> QueueAddresses:
        """The queues that were found, without those that left their topic's route: brokers refuse reads of these."""
        return {queue: address for queue, address in self.queues.items() if queue not in self._left_at}

    def take_removed(self) -> set[MessageQueue]:
        """Return queues that left their topic's route longer than `brokerTimeoutMs` ago, each once: a route may be out of date."""
        since = time.monotonic() - self._options.broker_timeout_ms / 1000
        removed = {queue for queue, left_at in self._left_at.items() if left_at <= since}
        self._left_at |= dict.fromkeys(removed, float("inf"))
        return removed

    def take_unknown(self) -> set[str]:
        """Return named topics that no NameServer has known since the query began, for `brokerTimeoutMs` or longer, each once."""
        if time.monotonic() - self._began_at < self._options.broker_timeout_ms / 1000:
            return set()
        unknown = self._missing.keys() - {queue.topic for queue in self.queues} - self._told_unknown
        self._told_unknown |= unknown
        return unknown

    def wait_for_queues(self, wanted: Iterable[MessageQueue]) -> QueueAddresses:
        """Return the queues that were found, once all of `wanted` are among them or the time is over.

        Raises:
            RouteNotFound: a topic that was named does not exist.
            NoNameServer: none answered.
        """
        missing = set(wanted) - self.queues.keys()
        give_up_at = time.monotonic() + self._options.broker_timeout_ms / 1000
        while missing:
            is_last = time.monotonic() >= give_up_at
            try:
                missing -= self.find_queues().keys()
                if missing:
                    self._log("no broker holds queues of a batch that was planned", queue_names(missing))
            except ClientError as error:
                if is_last:
                    raise
                self._log("no routes now of a batch that was planned", error)
            if not missing or is_last:
                break
            time.sleep(PAUSE_S)
        return self.queues

    def close(self) -> None:
        """Close the client."""
        self._client.close()

    @property
    def _due_at(self) -> float:
        poll_s = self._options.offset_poll_ms / 1000
        if self._idle_count >= IDLE_POLLS:
            # A stream may be idle for months: a power of all its polls would be no float any more.
            poll_s = max(poll_s, min(IDLE_POLL_S, poll_s * 2 ** min(self._idle_count - IDLE_POLLS + 1, DOUBLINGS_MAX)))
        return self._asked_at + poll_s

    def _log_gone(self, queue: MessageQueue) -> None:
        what = f"broker {queue.broker_name} does not have topic {queue.topic} any more, the others are read on"
        self._log(what, "was it deleted?")

    def _log_unreachable(self, address: str, error: ClientError) -> None:
        self._log(f"broker {address} does not answer, its queues wait", error)

    def _log(self, what: str, details: object) -> None:
        """Warn of something that is tried again and again."""
        now = time.monotonic()
        if now - self._logged_at.get(what, -float("inf")) >= LOG_EVERY_S:
            self._logged_at[what] = now
            log.warning("%s: %s", what, details)


def _is_passing(error: ClientError) -> bool:
    """Return True if the same question may be answered a little later: the server is away, or busy."""
    if isinstance(error, QueuesNotTold):
        error = error.error
    if isinstance(error, RemoteRefused):
        return is_passing(error)
    return isinstance(error, ConnectionFailed | RequestTimeout | NoNameServer)
