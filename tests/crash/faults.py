"""A store on real files whose system calls fail on request: call x error x moment x thread.

The calls themselves are replaced, so that the store's own code runs to its last line. Each fdatasync and fsync that
succeeds is noted with what the file held: after the scenario the power is cut, nothing else is left, and what was
acknowledged must be there.
"""

from __future__ import annotations

import errno
import itertools
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from enum import Enum
from pathlib import Path
from typing import Any, NamedTuple
from unittest import mock

from crash.hand_loop import HandFlusher, HandLoop
from orbitmq.errors import StoreBusy, StoreError, StoreUnavailable
from orbitmq.model.message import Host
from orbitmq.store import Draft, FlushMode, ReadStatus, Store, StoreConfig
from orbitmq.testing import FakeClock
from orbitmq.wire.messages.record import iter_records

CALLS = (
    "open",
    "mkdir",
    "ftruncate",
    "mmap",
    "posix_fallocate",
    "pwrite",
    "fdatasync",
    "fsync",
    "rename",
    "unlink",
    "rmdir",
)
ERRORS: dict[str, tuple[int, ...]] = {
    "open": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EPERM, errno.EMFILE, errno.ENFILE, errno.ENOMEM, errno.EACCES),
    "mkdir": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EPERM, errno.EDQUOT),
    "ftruncate": (errno.EIO, errno.EFBIG, errno.EROFS),
    "mmap": (errno.ENOMEM, errno.EAGAIN, errno.ENFILE),
    "posix_fallocate": (errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS),
    "pwrite": (errno.EIO, errno.ENOSPC, errno.EFBIG, errno.EDQUOT, errno.EROFS),
    "fdatasync": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "fsync": (errno.EIO, errno.ENOSPC, errno.EROFS),
    "rename": (errno.EIO, errno.ENOSPC, errno.EROFS, errno.EPERM),
    "unlink": (errno.EIO, errno.EROFS, errno.EPERM),
    "rmdir": (errno.EIO, errno.EROFS),
}
SEGMENT_SIZE, UNITS = 16_384, 16
QUEUES = [("orders", 0), ("bills", 0), ("new", 0)]
QUICK_DISK = "/dev/shm" if os.path.isdir("/dev/shm") else None
"""Syncs that wait for a real disk would be most of the time here."""
_BEFORE = 30
_TURNS_MAX = 1000


class Outcome(Enum):
    """What a fault in the middle of sending came to, for those who send."""

    UNNOTICED = "goes on"
    LATE = "answers come when it is over"
    REFUSED = "refuses meanwhile, goes on afterwards"
    FENCED = "read-only until a restart"


class Fault(NamedTuple):
    """A call that fails."""

    call: str
    number: int
    thread: str
    """`loop` or `flusher`."""
    is_lasting: bool
    """Each such call fails until it is over, or the first alone."""

    def __str__(self) -> str:
        return f"{errno.errorcode[self.number]} from {self.call} on the {self.thread}{' for a while' if self.is_lasting else ''}"


class Calls:
    """The system calls on files below a directory: counted, failing, and remembered where they make something durable."""

    def __init__(self, root: Path) -> None:
        self.thread = "loop"
        self.counts: dict[tuple[str, str], int] = {}
        self.durable: dict[str, bytes] = {}
        """Content by path that a power cut leaves; names count as soon as their directory was synced."""
        self._root = f"{root}/"
        self._fault: Fault | None = None
        self._skip = 0
        self._directories: dict[str, list[str]] = {}

    def arm(self, fault: Fault, skip: int = 0) -> None:
        """Let calls fail from now on, after so many that do not."""
        self._fault, self._skip = fault, skip

    def disarm(self) -> None:
        self._fault = None

    @contextmanager
    def replaced(self) -> Iterator[None]:
        """Stand where the system calls are."""
        with ExitStack() as stack:
            for name in CALLS:
                owner: Any = mmap if name == "mmap" else os
                stack.enter_context(mock.patch.object(owner, name, self._wrap(name, getattr(owner, name))))
            yield

    def after_power_cut(self, target: Path) -> None:
        """Write what is durable into another directory."""
        for path, content in self.durable.items():
            place = target / path.removeprefix(self._root)
            if self._is_named(path):
                place.parent.mkdir(parents=True, exist_ok=True)
                place.write_bytes(content)

    def _wrap(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(first: Any, *rest: Any, **more: Any) -> Any:
            path = self._path_of(first, **more)
            if path is None:
                return real(first, *rest, **more)
            self._strike(name)
            done = real(first, *rest, **more)
            self._note(name, path, rest)
            return done

        return call

    def _strike(self, name: str) -> None:
        key = (name, self.thread)
        self.counts[key] = self.counts.get(key, 0) + 1
        fault = self._fault
        if fault is None or (fault.call, fault.thread) != key:
            return
        if self._skip:
            self._skip -= 1
            return
        if not fault.is_lasting:
            self._fault = None
        raise OSError(fault.number, os.strerror(fault.number))

    def _path_of(self, first: Any, **more: Any) -> str | None:
        if more.get("dir_fd") is not None:
            path = os.path.join(os.readlink(f"/proc/self/fd/{more['dir_fd']}"), os.fspath(first))
        elif isinstance(first, int):
            path = os.readlink(f"/proc/self/fd/{first}") if first >= 0 else ""
        else:
            path = os.fspath(first)
        return path if f"{path}/".startswith(self._root) else None

    def _note(self, name: str, path: str, rest: tuple[Any, ...]) -> None:
        if name == "fdatasync":
            self.durable[path] = Path(path).read_bytes()
        elif name == "fsync":
            self._directories[path] = os.listdir(path)
        elif name == "rename":
            self.durable[os.fspath(rest[0])] = self.durable.pop(path, b"")

    def _is_named(self, path: str) -> bool:
        while f"{path}/" != self._root:
            directory, name = os.path.split(path)
            if name not in self._directories.get(directory, []):
                return False
            path = directory
        return True


class Scenario:
    """A store that is sent to while its disk misbehaves.

    Args:
        root: an empty directory.
    """

    def __init__(self, root: Path, flush: FlushMode = FlushMode.SYNC) -> None:
        self.calls = Calls(root / "store")
        self.acknowledged: dict[tuple[str, int], int] = {}
        self.answers: list[bool | None] = []
        self.refusals: list[str] = []
        self._root = root
        self._flush = flush
        self._sent = 0
        self._loop, self._flusher = HandLoop(), HandFlusher(HandLoop())
        self.store = self.open()

    def open(self, path: Path | None = None) -> Store:
        """Open the store, or what a power cut has left of it. Raises StoreError."""
        self._loop = loop = HandLoop()
        self._flusher = flusher = HandFlusher(loop)
        config = StoreConfig(
            path=path or self._root / "store", segment_size=SEGMENT_SIZE, consume_queue_units=UNITS, flush=self._flush
        )
        with self.calls.replaced():
            store = Store.open(config, store_host=Host("127.0.0.1", 1), clock=FakeClock())
            with mock.patch("orbitmq.store.sync.syncing.Flusher", return_value=flusher):
                store.attach(loop)  # type: ignore[arg-type]
        return store

    def send(self, count: int) -> None:
        """Send so many messages, each to the next queue; who waits is answered when the disk lets it."""
        with self.calls.replaced():
            for _ in range(count):
                # The last queue is new when the disk begins to misbehave: its directory has to be made.
                queue = QUEUES[self._sent % (2 if self._sent < _BEFORE else len(QUEUES))]
                self._sent += 1
                try:
                    result = self.store.append(Draft(*queue, b"%d" % self._sent + bytes(700)))
                except (StoreUnavailable, StoreBusy) as error:
                    self.refusals.append(str(error))
                else:
                    self._wait(queue, result.queue_offset, result.end)
                self._turn()

    def let_time_go_by(self) -> None:
        """Let timers and the flusher's rounds do their work."""
        with self.calls.replaced():
            for _ in range(30):
                self._loop.advance(0.1)
                self._turn()

    def close(self) -> None:
        with self.calls.replaced():
            self.store.close()

    def check(self, store: Store) -> None:
        """Everything acknowledged can be read, in order."""
        for queue in QUEUES:
            count = self.acknowledged.get(queue, 0)
            offset = 0
            while (found := store.read(*queue, offset)).status is ReadStatus.FOUND:
                assert [record.queue_offset for record in iter_records(found.body)] == list(
                    range(offset, found.next_offset)
                )
                offset = found.next_offset
            assert offset >= count, f"{queue}: {count} messages were acknowledged, {offset} are there"

    def check_after_power_cut(self) -> None:
        """The same with nothing but what was synced."""
        target = self._root / "after"
        shutil.rmtree(target, ignore_errors=True)
        target.mkdir()
        self.calls.after_power_cut(target)
        store = self.open(target)
        self.check(store)
        store.close()

    def _wait(self, queue: tuple[str, int], queue_offset: int, end: int) -> None:
        def answered(is_durable: bool | None) -> None:
            self.answers.append(is_durable)
            if is_durable:
                self.acknowledged[queue] = max(self.acknowledged.get(queue, 0), queue_offset + 1)

        if self.store.wait_durable(end, answered):
            answered(True)

    def _turn(self) -> None:
        """Let loop and flusher work until both have nothing to do; the flusher's calls are its thread's."""
        for _ in range(_TURNS_MAX):
            self._loop.turn()
            self.calls.thread = "flusher"
            try:
                if not self._flusher.work():
                    return
            finally:
                self.calls.thread = "loop"


def sends_meanwhile(root: Path, fault: Fault, skip: int) -> tuple[Outcome, Scenario] | None:
    """Send before, during and after a fault; None: such a call did not come."""
    harness = Scenario(root)
    harness.send(_BEFORE)
    harness.let_time_go_by()
    harness.calls.arm(fault, skip)
    before = len(harness.answers)
    struck = harness.calls.counts.get((fault.call, fault.thread), 0) + skip
    harness.send(60)
    harness.let_time_go_by()
    if harness.calls.counts.get((fault.call, fault.thread), 0) <= struck:
        harness.close()
        return None
    answered = len(harness.answers) - before
    is_late = answered < 60 - len(harness.refusals)
    harness.calls.disarm()
    refusals = len(harness.refusals)
    harness.let_time_go_by()
    harness.send(30)
    harness.let_time_go_by()
    if len(harness.refusals) > refusals:
        return Outcome.FENCED, harness
    if refusals:
        return Outcome.REFUSED, harness
    return (Outcome.LATE if is_late else Outcome.UNNOTICED), harness


def all_while_sending(skips: int) -> Iterator[Outcome]:
    """Play the whole table, each fault from each of the first calls on; yield what it came to. Raises AssertionError."""
    table = itertools.product(CALLS, ("loop", "flusher"), (False, True))
    for call, thread, is_lasting in table:
        for number, skip in itertools.product(ERRORS[call], range(1 if is_lasting else skips)):
            with tempfile.TemporaryDirectory(dir=QUICK_DISK) as directory:
                found = sends_meanwhile(Path(directory), Fault(call, number, thread, is_lasting), skip)
                if found is not None:
                    outcome, harness = found
                    harness.check(harness.store)
                    harness.close()
                    harness.check_after_power_cut()
                    yield outcome


def starts_meanwhile(root: Path, fault: Fault, skip: int) -> tuple[bool, Scenario] | None:
    """Start after kill -9 while a call fails; None: such a call did not come. Whether it started.

    Raises:
        OSError: the error as it came: without an explanation.
    """
    harness = Scenario(root)
    harness.send(60)
    harness.store._close_files()
    harness.calls.arm(fault, skip)
    struck = harness.calls.counts.get((fault.call, fault.thread), 0) + skip
    try:
        harness.store = harness.open()
        is_started = True
    except StoreError:
        is_started = False
    came = harness.calls.counts.get((fault.call, fault.thread), 0) > struck
    harness.calls.disarm()
    if is_started:
        harness.send(10)
        harness.close()
    return (is_started, harness) if came else None
