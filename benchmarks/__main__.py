"""`python -m benchmarks`: measure ours and Java's in turn, print the ratios, keep them as JSON."""

from __future__ import annotations

import argparse
import json
import os
import signal
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path

from benchmarks.figures import MEASURES, measure_figures, measure_spark
from benchmarks.load import BenchmarkError, compile_loadgen
from benchmarks.measure import Plan, Result, measure_rows
from benchmarks.readme import rewrite
from benchmarks.report import (
    ALL_ROWS,
    RESULTS,
    describe_machine,
    has_bar,
    machine_slug,
    save,
    sides,
    summary,
    table,
)
from benchmarks.rows import LOAD_ROWS, SPARK_ROWS
from benchmarks.servers import end_children, java_command

QUICK_ROWS = (
    "route-k8-50x1",
    "register-80-changed",
    "send-async-100-16x1",
    "send-sync-100-16x16",
    "pull-32",
    "start-nameserver",
    "memory-nameserver-idle",
    "memory-broker-idle",
)


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the benchmarks; 0 when every answer was good, 1 when some were bad, 2 when something is missing."""
    options = _parser().parse_args(arguments)
    if options.list:
        print("\n".join(f"{row.name:26} {row.title}" for row in ALL_ROWS))
        return 0
    if options.readme:
        rewrite()
        return 0
    if options.table:
        latest = RESULTS / f"latest-{machine_slug(describe_machine())}.json"
        print(table(json.loads(latest.read_text())["rows"]))
        return 0
    try:
        return _measure(options)
    except BenchmarkError as error:
        print(f"benchmarks: {error}", file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("--only", action="append", metavar="ROW", help="rows whose name starts so; may be repeated")
    parser.add_argument("--bars", action="store_true", help="only the rows that have a bar")
    parser.add_argument("--quick", action="store_true", help="a sanity run of ours alone: no figures worth keeping")
    parser.add_argument("--peers", choices=("both", "java", "ours"), default="both")
    parser.add_argument("--runs", type=int, default=3, help="runs of each row and peer; medians are shown")
    parser.add_argument("--seconds", type=float, default=4, help="measured seconds of each run")
    parser.add_argument("--messages", type=int, metavar="N", help="no row's sample is larger: for a look")
    parser.add_argument("--attempts", type=int, default=3, help="tries to get an undisturbed run")
    parser.add_argument(
        "--keep",
        action=argparse.BooleanOptionalAction,
        default=False,
        help="merge into the machine's committed figures",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write how many bars were reached there")
    parser.add_argument("--list", action="store_true", help="list the rows")
    parser.add_argument("--table", action="store_true", help="print the committed figures of this machine")
    parser.add_argument(
        "--readme",
        action="store_true",
        help="rewrite the tables of README.md and benchmarks/README.md from the committed figures",
    )
    return parser


def _plan(options: argparse.Namespace) -> Plan:
    cores = sorted(os.sched_getaffinity(0))
    plan = Plan(
        peers=("java", "ours") if options.peers == "both" else (options.peers,),
        runs=options.runs,
        seconds=options.seconds,
        attempts_max=options.attempts,
        server_core=cores[0],
        load_core=cores[-1],
        sample_messages_max=options.messages or Plan.sample_messages_max,
    )
    if options.quick:
        return replace(
            plan,
            peers=("ours",),
            runs=1,
            attempts_max=1,
            warmup_s=0.1,
            seconds=0.3,
            sample_messages_max=2000,
            brokers=10,
            topics=50,
        )
    return plan


def _chosen(options: argparse.Namespace) -> list[str]:
    names = [row.name for row in ALL_ROWS if not options.bars or has_bar(row)]
    if options.quick and not options.only:
        return list(QUICK_ROWS)
    if not options.only:
        return names
    chosen: set[str] = set()
    for only in options.only:
        found = {only} & set(names) or {name for name in names if name.startswith(only)}
        if not found:
            raise BenchmarkError(f"no row is called {only}; --list shows them")
        chosen |= found
    return [name for name in names if name in chosen]


def _measured(names: Sequence[str], plan: Plan) -> Iterator[tuple[str, Result]]:
    """Measure rows; what fails does not keep the rest from being measured, and is raised at the end."""
    failed = []
    for measured in (
        measure_rows([row for row in LOAD_ROWS if row.name in names], plan, _say),
        measure_figures([name for name in names if name in MEASURES], plan, _say),
        measure_spark([row for row in SPARK_ROWS if row.name in names], plan, _say),
    ):
        try:
            yield from measured
        except BenchmarkError as error:
            failed.append(str(error))
    if failed:
        raise BenchmarkError("; ".join(failed))


def _measure(options: argparse.Namespace) -> int:
    names, plan = _chosen(options), _plan(options)
    compile_loadgen()
    if "java" in plan.peers:
        java_command()
    if plan.server_core == plan.load_core:
        print("only one core: server and load generator share it, the figures say little", flush=True)
    results: dict[str, Result] = {}
    stopped = ""
    try:
        for name, result in _measured(names, plan):
            results |= {name: result}
    except BenchmarkError as error:
        stopped = str(error)
    except KeyboardInterrupt:
        stopped = "interrupted"
    print()
    print(table(results))
    if not options.quick:
        path = save(results, asdict(plan), keep=options.keep)
        print(f"\nwritten to benchmarks/results/{path.name}")
    bad = sum(side["bad"] for result in results.values() for side in sides(result).values())
    if options.json is not None:
        options.json.write_text(json.dumps({"bars": summary(results, bad, names)}, indent=1) + "\n", encoding="utf-8")
    if bad:
        print(f"benchmarks: {bad} answers were bad", file=sys.stderr)
    if stopped:
        print(f"benchmarks: {stopped}", file=sys.stderr)
    return 2 if stopped else 1 if bad else 0


def _say(line: str) -> None:
    print(line, flush=True)


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # servers are stopped on the way out
    try:
        sys.exit(main())
    finally:
        end_children()
