"""Plays the failure scenarios, prints what was measured against its bounds, and keeps it.

    make proof ARGS="--only cluster"                                   # everything with the true defaults, a quarter of an hour
    make proof ARGS="--only cluster/failures -- --only silent --keep"  # scenarios whose name holds a word
    make proof ARGS="--only cluster/failures -- --quick"               # the tests' short settings, nothing is kept

Exit code 1 when an outcome or a bound was missed, 2 when something is missing here. Ctrl-C ends it and what it started.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import logging
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.report import RESULTS, describe_machine

from cluster.lab import is_available
from cluster.scenarios import SCENARIOS, Scenario
from cluster.stage import DEFAULTS, QUICK, Cast, Finding, Stage, text_of
from interop.peers import why_unavailable
from orbitmq.net.loop import run

LATEST = RESULTS / "latest-failures.json"
CAST_TITLES: dict[Cast, str] = {"ours": "our brokers and clients", "java": "a Java broker and Java clients"}
Played = dict[str, list[Finding]]


def main() -> int:
    """Play, print, keep."""
    logging.getLogger("orbitmq").addHandler(logging.NullHandler())  # what clients say of outages is not news here
    options = _parser().parse_args()
    chosen = list(_chosen(options.only, options.cast))
    if not chosen:
        sys.exit("no such scenario; --list shows them")
    if options.list:
        print("\n".join(_title(scenario, cast) for scenario, cast in chosen))
        return 0
    if (reason := _what_is_missing(chosen)) is not None:
        print(f"failures: {reason}", file=sys.stderr)
        return 2
    try:
        played = run(_play_all(chosen, is_quick=options.quick))
    except (KeyboardInterrupt, asyncio.CancelledError):
        print("failures: interrupted, nothing is kept", file=sys.stderr)
        return 130
    print(f"\n{table(played)}")
    if options.keep and not options.quick:
        _keep(played)
    found = [finding for findings in played.values() for finding in findings]
    missed = sum(not finding.is_reached for finding in found)
    print(f"\n{len(played)} scenarios, {sum(bool(finding.bound) for finding in found)} bounds: {missed} missed")
    return 1 if missed else 0


def table(played: Played) -> str:
    """Return what was found as a Markdown table."""
    lines = ["| scenario | measured | found | bound | reached |", "|---|---|---:|---|---|"]
    for title, findings in played.items():
        for place, finding in enumerate(findings):
            verdict = ("yes" if finding.is_reached else "**NO**") if finding.bound else ""
            cells = (title if place == 0 else "", finding.what, text_of(finding), finding.bound, verdict)
            lines.append(f"| {' | '.join(cells)} |")
    return "\n".join(lines)


async def _play_all(chosen: list[tuple[Scenario, Cast]], *, is_quick: bool) -> Played:
    """Play one after the other; a scenario that comes to no end is a missed outcome, and the next one begins."""
    me = asyncio.current_task()
    assert me is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, me.cancel)
    played: Played = {}
    for number, (scenario, cast) in enumerate(chosen, start=1):
        title = _title(scenario, cast)
        print(f"[{number}/{len(chosen)}] {title}", flush=True)
        began = time.monotonic()
        with tempfile.TemporaryDirectory(prefix="orbitmq-failures-") as folder:
            stage = Stage(Path(folder), QUICK if is_quick else DEFAULTS, cast, _say)
            try:
                await scenario.play(stage)
            except Exception as error:
                stage.expect("the scenario comes to its end", f"{type(error).__name__}: {error}", "yes")
        played[title] = stage.findings
        _say(f"played in {time.monotonic() - began:.0f} s")
    return played


def _say(line: str) -> None:
    print(f"    {line}", flush=True)


def _title(scenario: Scenario, cast: Cast) -> str:
    return f"{scenario.title} ({CAST_TITLES[cast]})" if len(scenario.casts) > 1 else scenario.title


def _chosen(words: list[str] | None, casts: list[Cast] | None) -> Iterator[tuple[Scenario, Cast]]:
    for scenario in SCENARIOS:
        for cast in scenario.casts:
            is_wanted = not words or any(word in scenario.name for word in words)
            if is_wanted and (not casts or cast in casts):
                yield scenario, cast


def _what_is_missing(chosen: list[tuple[Scenario, Cast]]) -> str | None:
    if any(scenario.has_hosts for scenario, _ in chosen) and not is_available():
        return "some scenarios need root and iproute2, for network namespaces; --only chooses others"
    if any(cast == "java" for _, cast in chosen):
        return why_unavailable()
    return None


def _keep(played: Played) -> None:
    """Merge what was found into the committed file."""
    document: dict[str, Any] = json.loads(LATEST.read_text()) if LATEST.exists() else {"scenarios": {}}
    machine = {key: value for key, value in describe_machine().items() if key != "java_flags"}
    today = datetime.now(UTC).date().isoformat()
    for title, findings in played.items():
        document["scenarios"][title] = {"at": today, "findings": [_json(finding) for finding in findings]}
    document["machine"] = machine
    LATEST.write_text(json.dumps(document, indent=1, ensure_ascii=False) + "\n")
    print(f"\nmerged into benchmarks/results/{LATEST.name}")


def _json(finding: Finding) -> dict[str, Any]:
    plain = {key: value for key, value in asdict(finding).items() if key != "is_time"}
    return plain | {"found": finding.found if isinstance(finding.found, int | float | str) else text_of(finding)}


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="cluster", description=__doc__.splitlines()[0] if __doc__ else None)
    parser.add_argument(
        "--only", action="append", metavar="WORD", help="scenarios whose name holds it; may be repeated"
    )
    parser.add_argument(
        "--cast", action="append", choices=tuple(CAST_TITLES), help="only ours, or only with Java peers"
    )
    parser.add_argument("--quick", action="store_true", help="the tests' short settings; nothing is kept")
    parser.add_argument("--keep", action=argparse.BooleanOptionalAction, default=True, help=f"merge into {LATEST.name}")
    parser.add_argument("--list", action="store_true", help="list the scenarios")
    return parser


if __name__ == "__main__":
    sys.exit(main())
