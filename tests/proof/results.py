"""Results of a proof: the state of each row of a run that may be resumed, the kept file, and the table."""

from __future__ import annotations

import json
import os
import platform
import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

OTHERS_CPU_MAX = 0.1
"""Share of the machine that other processes may take before the table mentions it."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """What one run of a row measured. `others_cpu` is the share of the machine that other processes took meanwhile."""

    asked: str
    measured: str
    reached: bool
    at: str
    took_s: float
    seed: int | None
    commit: str
    is_dirty: bool
    processor: str
    cores: int
    others_cpu: float


@dataclass(frozen=True, slots=True)
class NotRun:
    """A row that was not run, and what is missing."""

    asked: str
    reason: str


Outcome = Result | NotRun


class States:
    """One JSON file for each row that a run has finished, which `--resume` reads.

    Args:
        folder: of the files.
        key: source tree and share; files of another one do not count.
    """

    def __init__(self, folder: Path, key: str) -> None:
        self._folder, self._key = folder, key

    def log(self, name: str) -> Path:
        """Return the path of a row's log."""
        return self._folder / f"{name}.log"

    def forget(self, name: str) -> None:
        """Remove a row's state."""
        self._path(name).unlink(missing_ok=True)

    def write(self, name: str, result: Result) -> None:
        """Write a row's state."""
        path = self._path(name)
        path.parent.mkdir(parents=True, exist_ok=True)
        write_json(path, {"key": self._key, "result": asdict(result)})

    def read(self, name: str) -> Result | None:
        """Return what an earlier run measured with the same source tree and share."""
        try:
            found = json.loads(self._path(name).read_text(encoding="utf-8"))
            return Result(**found["result"]) if found["key"] == self._key else None
        except (OSError, ValueError, KeyError, TypeError):
            return None

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.json"


def keep(path: Path, results: Mapping[str, Result], names: Sequence[str]) -> None:
    """Merge results into the kept file, in the order of `names`; the entries of other rows stay as they are."""
    kept = read_kept(path)
    kept |= {name: asdict(result) for name, result in results.items()}
    order = {name: place for place, name in enumerate(names)}
    rows = {name: kept[name] for name in sorted(kept, key=lambda name: (order.get(name, len(order)), name))}
    write_json(path, {"rows": rows})


def read_kept(path: Path) -> dict[str, Any]:
    """Return the rows of the kept file; none where there is no file.

    Raises:
        ValueError: it is damaged.
    """
    if not path.exists():
        return {}
    try:
        return dict(json.loads(path.read_text(encoding="utf-8"))["rows"])
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} cannot be read, mend or remove it: {error!r}") from error


def write_json(path: Path, value: Mapping[str, Any]) -> None:
    """Replace a file atomically: an interruption leaves the old one or the new one."""
    temporary = path.with_name(path.name + ".new")
    temporary.write_text(json.dumps(value, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    temporary.replace(path)


def table(outcomes: Mapping[str, Outcome]) -> str:
    """Return the outcomes as a Markdown table."""
    lines = ["| row | asked | measured | reached | took |", "|---|---|---|---|---:|"]
    for name, outcome in outcomes.items():
        if isinstance(outcome, NotRun):
            cells = [name, outcome.asked, f"not run: {outcome.reason}", "", ""]
        else:
            cells = [name, outcome.asked, outcome.measured, verdict(outcome), f"{outcome.took_s:.0f} s"]
        lines.append(f"| {' | '.join(' '.join(cell.replace('|', '/').split()) for cell in cells)} |")
    return "\n".join(lines)


def verdict(result: Result) -> str:
    """Return True if it was reached, and the share of the machine that others took where that is much."""
    word = "yes" if result.reached else "NO"
    return word if result.others_cpu <= OTHERS_CPU_MAX else f"{word}, others took {result.others_cpu:.0%} of the cores"


def processor() -> str:
    """Return the processor's model name."""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (found := re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())):
        return found[1]
    return platform.processor() or "unknown"


def cpu_of_others_s() -> float:
    """Return the machine's CPU time so far without this process's and that of its children that have ended."""
    machine, ours = psutil.cpu_times(), os.times()
    busy = machine.user + machine.nice + machine.system
    return float(busy - (ours.user + ours.system + ours.children_user + ours.children_system))
