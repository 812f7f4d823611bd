"""Processor time of tests: of their process and of all processes that it starts, user and system together.

A wall clock says how busy the machine was; processor time says what a test costs on any day. Each process that runs tests (a worker of
pytest-xdist, or the only process) measures itself, its ended children and its living descendants: `Meter`. The run's first process adds
up what the reports bring, prints the run's total and names the files that cost more than their kept figure: `Totals`.
"""

from __future__ import annotations

import datetime
import os
import re
import resource
import time
from collections import defaultdict
from collections.abc import Generator, Mapping
from pathlib import Path

import pytest

import tiers
from proof.results import processor

LIMIT_OF_A_TEST_S = 15
"""What takes longer is a test of `make interop` or `make proof`. Times of the set-up are of fixtures that many tests share."""
SHARE_MAX, SECONDS_MAX = 1.2, 2.0
"""A file is named when it takes more than this share of its kept figure, and this many seconds more."""
_PROC = Path("/proc")
_TICK_S = 1 / os.sysconf("SC_CLK_TCK")


def used() -> float:
    """Return the processor seconds of this process, of its ended children and of its living descendants."""
    return time.process_time() + _of_ended_children() + _of_living_descendants()


def _of_ended_children() -> float:
    ended = resource.getrusage(resource.RUSAGE_CHILDREN)
    return ended.ru_utime + ended.ru_stime


def _of_living_descendants() -> float:
    """Return the processor seconds of all living descendants; 0 where there is no /proc, which count when they have ended."""
    if not _has_children() or not _PROC.joinpath("self").exists():
        return 0.0
    children: defaultdict[int, list[int]] = defaultdict(list)
    ticks: dict[int, int] = {}
    for name in os.listdir(_PROC):
        if not name.isdigit():
            continue
        try:
            stat = _PROC.joinpath(name, "stat").read_bytes()
        except OSError:  # it has just ended
            continue
        fields = stat[stat.rindex(b")") + 2 :].split()  # from the third on: the second is a name that may hold anything
        children[int(fields[1])].append(int(name))
        ticks[int(name)] = sum(map(int, fields[11:15]))  # utime, stime, cutime, cstime
    found, left = 0, [os.getpid()]
    while left:
        for child in children[left.pop()]:
            found += ticks[child]
            left.append(child)
    return found * _TICK_S


def _has_children() -> bool:
    try:
        os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG | os.WNOWAIT)
    except ChildProcessError:
        return False
    return True


class Meter:
    """Adds to each report of a phase (set-up, call, teardown) the processor seconds since the report before it.

    Living descendants are looked at after the last phase, and not after quick tests, which start none: reading all of /proc takes
    milliseconds, and there are 17,000 tests. Where one has ended meanwhile, as a session's JVM, they are looked at all the same: what
    it took was counted while it lived.
    """

    def __init__(self) -> None:
        self._own = self._ended = self._descendants = 0.0

    @pytest.hookimpl(trylast=True)
    def pytest_collection_finish(self) -> None:
        """Begin: what the collection took, half a minute in each worker, belongs to no test."""
        self._own, self._ended = time.process_time(), _of_ended_children()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self, item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Measure the phase that has ended."""
        report = yield
        own, ended, descendants = time.process_time(), _of_ended_children(), self._descendants
        if ended != self._ended or (report.when == "teardown" and "quick" not in item.keywords):
            descendants = _of_living_descendants()
        # What a process took is lost to its grandparent when its parent ended first.
        took = own - self._own + ended - self._ended + descendants - self._descendants
        report.processor_s = max(0.0, took)  # type: ignore[attr-defined]
        self._own, self._ended, self._descendants = own, ended, descendants
        return report


class Totals:
    """The processor seconds of files, tests and tiers, added up from the reports of all workers."""

    def __init__(self) -> None:
        self._files: defaultdict[str, float] = defaultdict(float)
        self._tiers: defaultdict[str, float] = defaultdict(float)
        self._calls: dict[str, float] = {}
        self._run = tiers.run_name()

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Add what a phase has taken."""
        seconds = getattr(report, "processor_s", 0.0)
        self._files[tiers.file_of(report.nodeid)] += seconds
        self._tiers[tiers.tier_in(report.keywords)] += seconds
        if report.when == "call":
            self._calls[report.nodeid] = max(seconds, report.duration)

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
        """Print the total, and name what is over its figure; workers have ended by now."""
        total = used()
        limit = tiers.PROCESSOR_SECONDS_MAX.get(self._run)
        of_limit = f", at most {limit} s when nothing else runs" if limit and tiers.runs_all(config) else ""
        terminalreporter.section("processor time", sep="-")
        terminalreporter.line(f"{total:.0f} s, all started processes included{of_limit}")
        if not tiers.runs_all(config):
            return
        kept = tiers.kept_files()
        for file, seconds in over(self._files, kept).items():
            terminalreporter.line(f"{file}: {seconds:.1f} s, kept {kept.get(file, 0):.1f} s", yellow=True)
        for test, seconds in sorted(self._calls.items(), key=lambda item: -item[1]):
            if seconds > LIMIT_OF_A_TEST_S and self._run == "test":
                terminalreporter.line(f"{test}: {seconds:.1f} s, at most {LIMIT_OF_A_TEST_S} s alone", yellow=True)
        if self._run and config.option.keep_durations and config.stash.get(_passed, False):
            tiers.keep_durations(self._run, total, self._files, self._tiers, machine())

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        """Remember whether all have passed: a run with failures says too little."""
        session.config.stash[_passed] = exitstatus == pytest.ExitCode.OK


_passed = pytest.StashKey[bool]()


def over(files: Mapping[str, float], kept: Mapping[str, float]) -> dict[str, float]:
    """Return the files that took more than their kept seconds allow; those that were never kept count as 0."""
    return {
        file: seconds
        for file, seconds in sorted(files.items())
        if seconds > SHARE_MAX * kept.get(file, 0.0) and seconds > SECONDS_MAX + kept.get(file, 0.0)
    }


def machine() -> str:
    """Return the processor's model, the number of cores, and today's date."""
    model = re.sub(r"\s+", " ", processor())
    return f"{model}, {os.cpu_count()} cores, {datetime.date.today().isoformat()}"
