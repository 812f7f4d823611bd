"""Run the long proofs one after another and print what was asked, what was measured and whether that reaches it.

    make proof ARGS="--list"                                  # the rows
    make proof                                                # all of them: hours
    make proof ARGS="--only store --only crash/model"         # rows with a word in their name or rooms
    make proof ARGS="--changed"                               # rows about what differs from origin/main
    make proof ARGS="--resume"                                # without the rows that an interrupted run has finished
    make proof ARGS="--only simulation/cluster -- --seed 7"   # one row's command with more arguments, nothing is kept

Exit code: 0 everything reached, 1 something not, 2 something not run, 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import NoReturn

from proof.results import (
    NotRun,
    Outcome,
    Result,
    States,
    cpu_of_others_s,
    keep,
    processor,
    read_kept,
    table,
    verdict,
)
from proof.row import Row, UnknownWord, select
from proof.running import GRACE_S, Ended, Interruption, run
from proof.tree import GitError, Tree, changed_files, state_of


@dataclass(frozen=True, slots=True, kw_only=True)
class Setting:
    """Where a proof runs: the tree, its rows, what checks their needs, and where results go."""

    root: Path
    rows: Sequence[Row]
    needs: Mapping[str, Callable[[], str | None]]
    grace_s: float = GRACE_S

    @property
    def states(self) -> Path:
        """The folder of logs and of the states for `--resume`."""
        return self.root / "out" / "proof"

    @property
    def results(self) -> Path:
        """The kept file."""
        return self.root / "benchmarks" / "results" / "proof.json"


def main(arguments: Sequence[str], setting: Setting) -> int:
    """Do what the arguments ask for; return the exit code."""
    ours, passed = _split(arguments)
    parser = _parser()
    options = parser.parse_args(ours)
    try:
        rows = select(setting.rows, options.only)
        if options.changed is not None:
            changed = changed_files(setting.root, options.changed or None)
            rows = [row for row in rows if any(map(row.is_about, changed))]
    except (UnknownWord, GitError) as error:
        parser.error(str(error))
    if passed is not None:
        if len(rows) != 1:
            names = ", ".join(row.name for row in rows) or "none"
            parser.error(f"arguments after -- go to one row's command; selected: {names}")
        if (reason := what_is_missing(rows[0].needs, setting.needs)) is not None:
            print(f"{rows[0].name} not run: {reason}", file=sys.stderr)
            return 2
        _replace_process(rows[0], passed, setting, options)
    if options.list:
        print(_list(rows))
        return 0
    if not rows:
        print("no row is about a changed file")
        return 0
    proof = Proof(rows, setting, options)
    try:
        proof.look_at_kept_results()
    except ValueError as error:
        parser.error(str(error))
    return proof.run()


def _split(arguments: Sequence[str]) -> tuple[Sequence[str], Sequence[str] | None]:
    """Divide arguments at the first `--`: ours, and the row's, None without `--`."""
    if "--" not in arguments:
        return arguments, None
    place = arguments.index("--")
    return arguments[:place], arguments[place + 1 :]


def _replace_process(row: Row, passed: Sequence[str], setting: Setting, options: argparse.Namespace) -> NoReturn:
    """Become the row's command: its output, its Ctrl-C and its exit code are this process's."""
    seed = options.seed if options.seed is not None else row.seed and row.seed.usual
    arguments = row.arguments(share=options.share, seed=seed, keep=False)
    os.chdir(setting.root)
    sys.stdout.flush()
    os.execve(sys.executable, [sys.executable, *arguments, *passed], _environment(row, setting.root))


def _list(rows: Sequence[Row]) -> str:
    width = max((len(row.name) for row in rows), default=0)
    lines = [f"{row.name:{width}}  {_minutes(row):>12}  {row.asked}" for row in rows]
    return "\n".join([*lines, f"{len(rows)} rows, about {sum(row.minutes for row in rows) / 60:.1f} h"])


def _minutes(row: Row) -> str:
    return "under 1 min" if row.minutes < 1 else f"about {row.minutes:.0f} min"


def _environment(row: Row, root: Path) -> dict[str, str]:
    """Return the environment of a row's command, in which Python finds the tests' modules and the benchmarks."""
    path = [str(root / "tests"), str(root), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {**os.environ, **row.environment, "PYTHONPATH": os.pathsep.join(path)}


class Proof:
    """One run of the proof: rows in turn, each in a child process."""

    def __init__(self, rows: Sequence[Row], setting: Setting, options: argparse.Namespace) -> None:
        self._rows, self._setting = rows, setting
        self._share: float = options.share
        self._seed: int | None = options.seed
        self._keeps = options.keep and self._share >= 1
        self._resumes: bool = options.resume
        self._tree: Tree = state_of(setting.root)
        self._states = States(setting.states, f"{self._tree.digest} share {self._share:g}")
        self._interruption = Interruption()
        self._line = LiveLine()

    def look_at_kept_results(self) -> None:
        """Read the file that results are to be merged into, before the hours that they take.

        Raises:
            ValueError: it cannot be read.
        """
        if self._keeps:
            read_kept(self._setting.results)

    def run(self) -> int:
        """Run the rows, print the table, keep the results; return the exit code."""
        outcomes: dict[str, Outcome] = {}
        with self._interruption.watch():
            if not self._resumes:
                for row in self._rows:
                    self._states.forget(row.name)
            for number, row in enumerate(self._rows, start=1):
                outcome = self._outcome_of(row, f"[{number}/{len(self._rows)}] {row.name}")
                if outcome is None:
                    break
                outcomes[row.name] = outcome
        if outcomes:
            print(f"\n{table(outcomes)}", flush=True)
        if self._interruption.count:
            print(f"\ninterrupted after {len(outcomes)} of {len(self._rows)} rows, nothing is kept; --resume goes on")
            return 130
        return self._close(outcomes)

    def _close(self, outcomes: Mapping[str, Outcome]) -> int:
        results = {name: outcome for name, outcome in outcomes.items() if isinstance(outcome, Result)}
        if self._keeps and results:
            keep(self._setting.results, results, [row.name for row in self._setting.rows])
            print(f"\nmerged into {self._setting.results.relative_to(self._setting.root)}")
        missed = [name for name, result in results.items() if not result.reached]
        left = [name for name in outcomes if name not in results]
        print(f"\n{len(results) - len(missed)} of {len(outcomes)} rows reached", end="")
        print(
            "".join(
                f"; {word}: {', '.join(names)}" for word, names in (("not reached", missed), ("not run", left)) if names
            )
        )
        return 1 if missed else 2 if left else 0

    def _outcome_of(self, row: Row, title: str) -> Outcome | None:
        """Run one row, or take what an earlier run measured; None when a signal came."""
        if self._resumes and (earlier := self._earlier(row)) is not None:
            print(f"{title} finished earlier: {verdict(earlier)}, {earlier.took_s:.0f} s", flush=True)
            return earlier
        if self._interruption.count:
            return None
        if (reason := what_is_missing(row.needs, self._setting.needs)) is not None:
            print(f"{title} not run: {reason}", flush=True)
            return NotRun(row.asked, reason)
        print(f"{title} ({_minutes(row)}) ...", flush=True)
        outcome = self._measure(row)
        if isinstance(outcome, Result):
            log = "" if outcome.reached else f"; see {self._states.log(row.name).relative_to(self._setting.root)}"
            print(f"    reached: {verdict(outcome)}, {outcome.took_s:.0f} s{log}", flush=True)
            self._states.write(row.name, outcome)
        return outcome

    def _earlier(self, row: Row) -> Result | None:
        """Return what an earlier run measured, with the same seed where one is given."""
        found = self._states.read(row.name)
        is_other = row.seed is not None and self._seed is not None and found is not None and found.seed != self._seed
        return None if is_other else found

    def _measure(self, row: Row) -> Outcome | None:
        seed = self._seed_of(row)
        command = [sys.executable, *row.arguments(share=self._share, seed=seed, keep=self._keeps)]
        log = self._states.log(row.name)
        answer = log.with_suffix(".answer")
        answer.unlink(missing_ok=True)
        if row.writes_json:
            command += ["--json", str(answer)]
        at, began, others = datetime.now(UTC), time.monotonic(), cpu_of_others_s()
        ended = run(
            command,
            log,
            self._interruption,
            environment=_environment(row, self._setting.root),
            folder=self._setting.root,
            show=self._line.show,
            grace_s=self._setting.grace_s,
        )
        self._line.clear()
        if ended.is_interrupted:
            return None
        took_s = time.monotonic() - began
        said = _said(ended)
        if row.writes_json and (answer.exists() or said.reached):
            said = _read_answer(answer)
        if row.is_pytest and ended.code == 0 and " passed" not in said.measured:
            return NotRun(row.asked, said.measured)
        return Result(
            asked=said.asked or row.asked,
            measured=said.measured,
            reached=said.reached and ended.code == 0,
            at=at.isoformat(timespec="seconds"),
            took_s=round(took_s, 1),
            seed=seed,
            commit=self._tree.commit,
            is_dirty=self._tree.is_dirty,
            processor=processor(),
            cores=os.cpu_count() or 1,
            others_cpu=round(max(0.0, (cpu_of_others_s() - others) / took_s / (os.cpu_count() or 1)), 2),
        )

    def _seed_of(self, row: Row) -> int | None:
        if row.seed is None:
            return None
        if self._seed is not None:
            return self._seed
        return int(time.time()) if row.seed.usual is None else row.seed.usual


@dataclass(frozen=True, slots=True)
class Said:
    """What a command says of its own run."""

    asked: str | None
    measured: str
    reached: bool


def _read_answer(path: Path) -> Said:
    """Read the JSON that a command wrote about its only row; one that is missing or damaged is not reached."""
    try:
        (answer,) = json.loads(path.read_text(encoding="utf-8")).values()
        return Said(answer["asked"], answer["measured"], answer["reached"])
    except FileNotFoundError:
        return Said(None, "the command wrote no result", False)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        return Said(None, f"the command wrote a result that cannot be read: {error!r}", False)


def _said(ended: Ended) -> Said:
    """Take a command's last line, or where it failed the last lines of both streams."""
    if ended.code == 0:
        return Said(None, ended.last_line.strip("= "), True)
    lines = filter(None, (f"exit code {ended.code}", ended.last_line.strip("= "), ended.last_error))
    return Said(None, "; ".join(lines), False)


def what_is_missing(needs: Iterable[str], checks: Mapping[str, Callable[[], str | None]]) -> str | None:
    """Return the first thing that is missing here; None when everything is there."""
    return next((reason for need in needs if (reason := checks[need]()) is not None), None)


class LiveLine:
    """The last line of a running command on a terminal, overwritten by the next one; nothing elsewhere."""

    SHOWN_EVERY_S = 0.1

    def __init__(self) -> None:
        self._is_terminal = sys.stdout.isatty()
        self._shown_at = 0.0

    def show(self, line: str) -> None:
        """Show a line, unless another was shown a moment ago."""
        if not self._is_terminal or time.monotonic() - self._shown_at < self.SHOWN_EVERY_S:
            return
        self._shown_at = time.monotonic()
        printable = "".join(letter if letter.isprintable() else " " for letter in line)
        sys.stdout.write(f"\r\x1b[K    {printable[: shutil.get_terminal_size().columns - 5]}")
        sys.stdout.flush()

    def clear(self) -> None:
        """Remove the line."""
        if self._is_terminal:
            sys.stdout.write("\r\x1b[K")
            sys.stdout.flush()


def _share(text: str) -> float:
    share = float(text)
    if not 0 < share <= 1:
        raise argparse.ArgumentTypeError(f"share is {text}; above 0, at most 1")
    return share


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="make proof", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--only", action="append", default=[], metavar="WORD", help="rows with it in name or rooms; may be repeated"
    )
    parser.add_argument(
        "--changed",
        nargs="?",
        const="",
        metavar="REF",
        help="rows about files that differ from it (origin/main, or HEAD~1)",
    )
    parser.add_argument("--resume", action="store_true", help="skip rows that a run of the same tree has finished")
    parser.add_argument("--share", type=_share, default=1.0, help="how much of everything; less than 1 is not kept")
    parser.add_argument("--seed", type=int, help="for every row that takes one, instead of its own")
    parser.add_argument("--list", action="store_true", help="list the rows, run nothing")
    parser.add_argument(
        "--keep", action=argparse.BooleanOptionalAction, default=True, help="merge into benchmarks/results/proof.json"
    )
    return parser
