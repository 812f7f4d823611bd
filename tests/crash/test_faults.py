"""System calls of the store that fail: call x error x thread, while messages are sent and while the store starts."""

import errno
import logging

import pytest

from crash.faults import CALLS, ERRORS, QUEUES, Fault, Outcome, Scenario, sends_meanwhile, starts_meanwhile
from orbitmq.store import Draft, FlushMode

U, L, R, F = Outcome.UNNOTICED, Outcome.LATE, Outcome.REFUSED, Outcome.FENCED
SHORTAGES = (errno.EMFILE, errno.ENFILE, errno.ENOMEM)
# What a failing call may come to while messages are sent. A sync that failed is final; where the disk was not even
# asked, messages are refused or wait, and all goes on as soon as it can.
ALLOWED = {
    ("open", "loop"): {R, F},
    ("open", "flusher"): {U, L, F},
    ("mkdir", "loop"): {U, R},
    ("mkdir", "flusher"): {U, L},
    ("ftruncate", "loop"): {R},
    ("ftruncate", "flusher"): {U, L},
    ("mmap", "loop"): {R},
    ("pwrite", "loop"): {U, R},
    ("pwrite", "flusher"): {U, L},
    ("fdatasync", "loop"): {F},
    ("fdatasync", "flusher"): {U, F},
    ("fsync", "loop"): {F},
    ("fsync", "flusher"): {U, F},
    ("rename", "flusher"): {U},
}
TABLE = [
    Fault(call, number, thread, is_lasting)
    for call in CALLS
    for number in ERRORS[call]
    for thread in ("loop", "flusher")
    for is_lasting in (False, True)
]
FIRST_CALLS = 3
ELSEWHERE = ("posix_fallocate", "rename", "unlink", "rmdir")
"""Calls of recovery and of deletions."""


@pytest.fixture(autouse=True)
def _quiet(caplog):
    caplog.set_level(logging.CRITICAL)


SHORT = ("fdatasync", "rename")
"""System calls of `make test`; `make proof` lets each one fail."""
EVERY_CALL = [call if call in SHORT else pytest.param(call, marks=pytest.mark.proof) for call in CALLS]


@pytest.mark.parametrize("call", EVERY_CALL)
def test_whatever_fails_while_messages_are_sent_nothing_acknowledged_is_lost(tmp_path, call):
    came = 0
    for fault in (fault for fault in TABLE if fault.call == call):
        for skip in range(1 if fault.is_lasting else FIRST_CALLS):
            root = tmp_path / f"{came}-{fault.number}-{fault.thread}-{fault.is_lasting}-{skip}"
            root.mkdir()
            found = sends_meanwhile(root, fault, skip)
            if found is None:
                break
            came += 1
            outcome, harness = found
            assert outcome in ALLOWED[call, fault.thread], f"{fault}: {outcome.value}, {harness.refusals[:1]}"
            if fault.call == "open" and fault.number in SHORTAGES:
                assert outcome is not F, f"{fault}: the disk was not asked"
            harness.check(harness.store)
            harness.close()
            harness.check_after_power_cut()
    assert came or call in ELSEWHERE, "no such call came"


@pytest.mark.parametrize("call", EVERY_CALL)
def test_whatever_fails_while_it_starts_the_store_says_so_or_starts_and_the_next_start_is_whole(tmp_path, call):
    for number in ERRORS[call][:2]:
        skip = 0
        while True:
            root = tmp_path / f"{number}-{skip}"
            root.mkdir()
            found = starts_meanwhile(root, Fault(call, number, "loop", False), skip)
            if found is None:
                break
            _, harness = found
            harness.store = harness.open()
            harness.check(harness.store)
            harness.close()
            harness.check_after_power_cut()
            skip += 1


def test_a_file_that_a_killed_process_made_keeps_its_name_once_it_is_synced(tmp_path):
    harness = Scenario(tmp_path, FlushMode.ASYNC)
    with harness.calls.replaced():
        for _ in range(60):
            harness.store.append(Draft(*QUEUES[0], bytes(700)))
    harness.store._close_files()
    harness.store = harness.open()
    with harness.calls.replaced():
        harness.store.flush()
    harness.acknowledged[QUEUES[0]] = 60
    harness.check_after_power_cut()
    harness.close()


def test_a_disk_that_hangs_is_named_and_waiters_get_unknown(tmp_path):
    harness = Scenario(tmp_path)
    answers: list[bool | None] = []
    result = harness.store.append(Draft(*QUEUES[0], b"slow"))
    assert not harness.store.wait_durable(result.end, answers.append)
    harness._loop.turn()  # the flusher has its task, and does not come back from it
    harness._loop.advance(6)
    assert answers == [None]
    assert any("the disk hangs" in warning for warning in harness.store.warnings)
    with harness.calls.replaced():
        harness._turn()
    assert not any("the disk hangs" in warning for warning in harness.store.warnings)
    assert harness.store.durable_offset == result.end
    harness.close()
