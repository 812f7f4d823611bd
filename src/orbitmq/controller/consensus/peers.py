"""The other controllers of a node: its messages to them, and which of theirs are believed.

Messages to one peer travel together, one request after the other; what waits for a peer that does not answer is dropped, for Raft
says it again. A peer is believed when it has the same list of controllers, and the disk that it had when it was first met: a
controller with an empty disk under its old name has forgotten its votes, and could give one twice. Messages name the disk that
they are for, too: what a leader says to the owner of a log means nothing to an empty one under the same name.
"""

from __future__ import annotations

import asyncio
import json
import logging
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime
from pathlib import Path
from uuid import uuid4

from orbitmq.admin.controller_facts import danger_of
from orbitmq.clock import monotonic_ms, now_ms
from orbitmq.codes import ResponseCode
from orbitmq.controller.consensus.codec import encode_messages
from orbitmq.errors import ClientError, StoreError
from orbitmq.net.pool import ConnectionPool
from orbitmq.raft import InstallSnapshot, Message
from orbitmq.raft.quorum import majority
from orbitmq.store.disk import Disk, write_whole
from orbitmq.wire.headers import RaftMessages

log = logging.getLogger(__name__)

TIMEOUT_MS = 1_000
"""How long a peer may take for an answer."""
WAITING_MAX = 256
"""Messages that wait for one peer; older ones are dropped."""
REFUSAL_MS = 10_000
"""A peer that was not refused for so long has stopped, or is believed."""
REFUSALS_MAX = 100
"""Names that strangers may choose are among them."""
MISSING_MS = 3_000
"""A controller that does not answer for so long is missing: a restart takes less."""
_PAUSE_S = 0.05


class Disks:
    """Which disk each controller had when it was first met (`peers.json`), and this one's own (`disk`).

    Args:
        directory: of this node.
    """

    def __init__(self, disk: Disk, directory: Path) -> None:
        self._disk = disk
        self._directory = directory
        self._known: dict[str, str] = {}
        self.own = ""

    def load(self) -> None:
        """Read both; at the first start this disk gets its name.

        Raises:
            StoreError: the files are damaged.
            OSError: the disk does not give, or take them.
        """
        path = self._directory / "disk"
        self.own = self._disk.read(path).decode("ascii", "replace").strip("\0\n ")
        if not self.own:
            self.own = uuid4().hex
            write_whole(self._disk, path, self.own.encode())
        content = self._disk.read(self._directory / "peers.json")
        try:
            known = json.loads(content) if content else {}
            if not isinstance(known, dict) or not all(isinstance(disk, str) for disk in known.values()):
                raise TypeError("an object of texts is expected")
        except (ValueError, TypeError) as error:
            raise StoreError(f"{self._directory / 'peers.json'}: {error}") from None
        self._known = known

    def check(self) -> None:
        """Raise OSError unless the directory is still on this disk: where another one is mounted, it may be empty."""
        path = self._directory / "disk"
        if self._disk.read(path).decode("ascii", "replace").strip("\0\n ") != self.own:
            raise OSError(f"{path} does not name the disk {self.own} any more: is it mounted?")

    def is_list_kept(self, controllers: str) -> bool:
        """Return True if the list of controllers is the one that `keep_list` has kept."""
        return self._disk.read(self._directory / "controllers").rstrip(b"\0") == controllers.encode()

    def keep_list(self, controllers: str) -> None:
        """Keep which list of controllers this node works with. Raises OSError."""
        write_whole(self._disk, self._directory / "controllers", controllers.encode())

    def known(self, name: str) -> str | None:
        """Return the disk that a controller had when it was first met; None before."""
        return self._known.get(name)

    def is_known(self, name: str, disk: str) -> bool:
        """Return True if a controller has the disk that it had; the first one that is told is kept. Raises OSError."""
        if name not in self._known:
            known = self._known | {name: disk}
            write_whole(self._disk, self._directory / "peers.json", json.dumps(known).encode())
            self._known = known
        return self._known[name] == disk


class Peers:
    """Sends messages to the other controllers.

    Args:
        group: the name that all of them have in common.
        name: this node's.
        addresses: of all nodes, by name; the numbers of Raft count the names in their order, from 1.
        unreachable: told the number of a peer to which messages were lost.
        delivered: told the number of a peer that a snapshot was sent to, and whether it has it.
    """

    def __init__(
        self,
        group: str,
        name: str,
        addresses: Mapping[str, str],
        pool: ConnectionPool,
        disks: Disks,
        *,
        unreachable: Callable[[int], None],
        delivered: Callable[[int, bool], None],
    ) -> None:
        self._refusals: dict[tuple[str, str], tuple[str, int]] = {}
        """By name, and by what was refused (`answers`, messages of the `known` disk, of `other` ones): why, and when last."""
        self._silent_since_ms: dict[str, int] = {}
        """Peers that did not answer the last message, and when the first went without an answer."""
        self._group = group
        self._name = name
        self._addresses = {number: addresses[name] for number, name in enumerate(sorted(addresses), 1)}
        self._names = dict(enumerate(sorted(addresses), 1))
        self.list = ";".join(f"{name}-{addresses[name]}" for name in sorted(addresses))
        self._pool = pool
        self._disks = disks
        self._unreachable = unreachable
        self._delivered = delivered
        self._waiting: dict[int, deque[Message]] = {}
        self._wakes: dict[int, asyncio.Event] = {}
        self._tasks: list[asyncio.Task[None]] = []

    @property
    def own_number(self) -> int:
        """The number of this node."""
        return next(number for number, name in self._names.items() if name == self._name)

    @property
    def addresses(self) -> Mapping[int, str]:
        """Where each node is, by its number, this one included."""
        return self._addresses

    def is_connected(self, number: int) -> bool:
        """Return True if there is a connection to a node now."""
        return self._addresses[number] in self._pool.addresses

    def start(self) -> None:
        """Begin to send."""
        for number in self._addresses.keys() - {self.own_number}:
            self._waiting[number] = deque(maxlen=WAITING_MAX)
            self._wakes[number] = asyncio.Event()
            self._tasks.append(asyncio.get_running_loop().create_task(self._send_to(number)))

    async def stop(self) -> None:
        """Send nothing any more."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    def send(self, messages: Iterable[Message]) -> None:
        """Send messages soon; they may be lost."""
        for message in messages:
            if (waiting := self._waiting.get(message.receiver)) is not None:
                waiting.append(message)
                self._wakes[message.receiver].set()

    def refusal_of(self, header: RaftMessages) -> str | None:
        """Return why messages are not believed, None when they are."""
        if header.group != self._group:
            return f"the group {header.group} is not this one, {self._group}"
        if header.controllers != self.list:
            return f"its list of controllers is {header.controllers}, this one's is {self.list}"
        if header.sender not in self._names.values() or header.sender == self._name:
            return f"{header.sender} is no other controller of {self.list}"
        try:
            is_known = self._disks.is_known(header.sender, header.disk)
        except OSError as error:
            return f"the disk of {self._name} does not keep which disk {header.sender} has: {error}"
        if not is_known:
            return _other_disk(header.sender, header.disk, self._disks.known(header.sender), self._name)
        if header.receiver_disk not in (None, self._disks.own):
            return _other_disk(self._name, self._disks.own, header.receiver_disk, header.sender)
        return None

    def missing_text(self) -> str | None:
        """Return which controllers do not answer, since when, what follows, and what to do; None: all that were sent anything do."""
        now = now_ms()
        missing = {name: since for name, since in sorted(self._silent_since_ms.items()) if now - since >= MISSING_MS}
        if not missing:
            return None
        addresses = {self._names[number]: address for number, address in self._addresses.items()}
        said = ", ".join(f"{name} ({addresses[name]}) since {_time(since)}" for name, since in missing.items())
        count = len(addresses)
        danger = danger_of(count - len(missing), count, majority(count))
        return f"no answer from the controller {said}: {danger}; start it again"

    @property
    def refusals(self) -> dict[str, str]:
        """Peers that do not believe this node, or are not believed, each with the reason; refusals are repeated while they hold."""
        since = monotonic_ms() - REFUSAL_MS
        return {name: reason for (name, _), (reason, at_ms) in sorted(self._refusals.items()) if at_ms >= since}

    def note_refusal(self, name: str, reason: str | None, *, disk: str | None = None) -> None:
        """Remember, and tell once, why a peer is not believed or does not believe this node.

        Args:
            disk: what messages have come from; None: this is about answers. What comes from a known disk takes back nothing that
                was said of another one, under the same name.
        """
        what = "answers" if disk is None else "known" if disk == self._disks.known(name) else "other"
        key, now = (name, what), monotonic_ms()
        known, at_ms = self._refusals.pop(key, (None, 0))
        if reason is None:
            return
        if known != reason or now - at_ms > REFUSAL_MS:
            log.error("the controller %s: %s", name, reason)
        while len(self._refusals) >= REFUSALS_MAX:
            del self._refusals[next(iter(self._refusals))]
        self._refusals[key] = reason, now

    async def _send_to(self, number: int) -> None:
        """Send to one peer what waits for it, until it is cancelled."""
        waiting, wake, name = self._waiting[number], self._wakes[number], self._names[number]
        while True:
            await wake.wait()
            wake.clear()
            if not waiting:
                continue
            messages = list(waiting)
            waiting.clear()
            has_snapshot = any(isinstance(message, InstallSnapshot) for message in messages)
            header = RaftMessages(
                group=self._group,
                sender=self._name,
                controllers=self.list,
                disk=self._disks.own,
                receiver_disk=self._disks.known(name),
            )
            try:
                answer = await self._pool.request(
                    self._addresses[number], header, encode_messages(messages), timeout_ms=TIMEOUT_MS
                )
            except ClientError as error:
                log.debug("messages to %s are lost: %s", name, error)
                self._silent_since_ms.setdefault(name, now_ms())
                self._unreachable(number)
                is_taken = False
            else:
                self._silent_since_ms.pop(name, None)
                is_taken = answer.code == ResponseCode.SUCCESS
                self.note_refusal(name, None if is_taken else answer.remark or f"it answers {answer.code}")
            if has_snapshot:
                self._delivered(number, is_taken)
            if not is_taken:
                await asyncio.sleep(_PAUSE_S)


def _time(time_ms: int) -> str:
    return f"{datetime.fromtimestamp(time_ms / 1000, UTC):%Y-%m-%d %H:%M:%S} UTC"


def _other_disk(name: str, disk: str, known: str | None, by: str) -> str:
    """Return why a controller is not believed, and what to do about it."""
    return (
        f"{name} has another disk than before, {disk}, and {by} knows it with {known}: it may have forgotten its votes. If the "
        f"disk {known} is lost for good, or was a stranger's, remove peers.json of {by} while it is stopped"
    )
