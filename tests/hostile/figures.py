"""Every hostility figure with its full size: `make proof ARGS="--only hostile/"`, or `python -m hostile.figures [slow-senders idle-connections …] [--share 0.01]`.

Prints what was asked, what was measured and whether that reaches it; keeps full-size results as JSON, those of rows that
were not run as they were, and those that missed while other processes took the cores, unless there is nothing else to
keep. With `--json FILE` the rows of this run are written there, too. Exit code 1 when a figure is not reached.
"""

from __future__ import annotations

import argparse
import json
import logging
import os
import platform
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psutil

from hostile import dearest, forged, peers, requests
from hostile.figure import Figure, Size

OTHERS_CPU_MAX = 0.1
"""Share of the machine that others may take before a figure that was not reached says little."""
RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "latest-hostile.json"
FIGURES: Mapping[str, Callable[[Size], Figure]] = {
    "injured-inputs": forged.injured_inputs,
    "injured-frames": forged.injured_frames,
    "latency-under-attack": forged.latency_under_attack,
    "lying-lengths": forged.lying_lengths,
    "slow-senders": peers.slow_senders,
    "idle-connections": peers.idle_connections,
    "connection-flood": peers.connection_flood,
    "deaf-readers": peers.deaf_readers,
    "json-bombs": forged.json_bombs,
    "dearest-requests": dearest.dearest_requests,
    "known-attacks": requests.known_attacks,
    "request-matrix": requests.request_matrix,
    "names": requests.names_at_every_entry,
    "model-histories": forged.model_histories,
}


def main(prog: str, figures: Mapping[str, Callable[[Size], Figure]], results: Path, description: str | None) -> int:
    """Measure what the command line asks for, print it, keep it; return the exit code."""
    parser = argparse.ArgumentParser(prog=prog, description=description)
    parser.add_argument("rows", nargs="*", help=f"of {', '.join(figures)}; all when left out")
    parser.add_argument("--share", type=float, default=1.0, help="how much of everything; less than 1 is not kept")
    parser.add_argument("--seed", type=int, default=int(time.time()))
    parser.add_argument("--json", type=Path, metavar="FILE", help="write asked, measured and reached of each row there")
    parser.add_argument(
        "--keep", action=argparse.BooleanOptionalAction, default=True, help=f"merge full sizes into {results.name}"
    )
    options = parser.parse_args()
    names = [name for name in figures if not options.rows or name in options.rows]
    if not names:
        parser.error(f"no such row, there are {', '.join(figures)}")
    logging.disable(logging.WARNING)  # what is refused is logged, and nothing else happens here
    # A shell starts background jobs with SIGINT ignored; SIGTERM must not leave servers and attackers behind either.
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    size = Size(options.share, options.seed)
    try:
        found = {name: measure(name, figures[name], size) for name in names}
    except KeyboardInterrupt:
        print("interrupted: nothing is kept", file=sys.stderr)
        return 130
    print("\n" + table(found), flush=True)
    if options.json is not None:
        options.json.write_text(json.dumps(found, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    if options.keep and options.share >= 1:
        keep(results, found, list(figures))
    return 0 if all(row["reached"] for row in found.values()) else 1


def measure(name: str, figure_of: Callable[[Size], Figure], size: Size) -> dict[str, Any]:
    """Return one row as it is kept, and print it."""
    print(f"{name} … (seed {size.seed})", flush=True)
    began, others = time.monotonic(), _cpu_of_others()
    figure = figure_of(size)
    took_s = time.monotonic() - began
    share = (_cpu_of_others() - others) / took_s / (psutil.cpu_count() or 1)
    print(f"  {figure.measured}\n  {_verdict(figure.reached, share)}, {took_s:.0f} s", flush=True)
    return {
        **asdict(figure),
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "took_s": round(took_s, 1),
        "seed": size.seed,
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else psutil.cpu_count(),
        "others_cpu": round(max(0.0, share), 2),
    }


def _verdict(reached: bool, others_cpu: float) -> str:
    word = "yes" if reached else "NO"
    return word if others_cpu <= OTHERS_CPU_MAX else f"{word}, while others took {others_cpu:.0%} of the cores"


def _cpu_of_others() -> float:
    """Return the CPU time of the machine so far without ours and our children's that have ended."""
    machine, ours = psutil.cpu_times(), os.times()
    busy = machine.user + machine.nice + machine.system
    return busy - (ours.user + ours.system + ours.children_user + ours.children_system)


def table(found: Mapping[str, Mapping[str, Any]]) -> str:
    """Return the rows as people read them."""
    lines = ["| row | asked | measured | reached |", "|---|---|---|---|"]
    lines += [
        f"| {name} | {row['asked']} | {row['measured']} | {_verdict(row['reached'], row['others_cpu'])} |"
        for name, row in found.items()
    ]
    return "\n".join(lines)


def keep(results: Path, found: Mapping[str, Mapping[str, Any]], names: Sequence[str]) -> None:
    """Write the rows to a file, in the order of `names`; what was not measured now stays."""
    kept = json.loads(results.read_text())["rows"] if results.exists() else {}
    found = {
        name: row
        for name, row in found.items()
        if row["reached"] or row["others_cpu"] <= OTHERS_CPU_MAX or name not in kept
    }
    rows = {name: found.get(name, kept.get(name)) for name in names if name in found or name in kept}
    document = {"python": platform.python_version(), "machine_cores": psutil.cpu_count(), "rows": rows}
    results.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__":
    raise SystemExit(main("hostile.figures", FIGURES, RESULTS, __doc__))
