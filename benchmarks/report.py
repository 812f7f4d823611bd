"""Results as JSON and as a table of ratios."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from benchmarks.rows import FIGURES, LOAD_ROWS, SPARK_ROWS, Bar, Figure, Row, SparkRow
from benchmarks.servers import JAVA_HEAP, JAVA_TUNING, JAVA_VERSION

DISTURBED_CPU = 0.25  # of one core, taken by others
RESULTS = Path(__file__).parent / "results"
ROOT = Path(__file__).parent.parent
MEASURED = ("src", "benchmarks", ":!benchmarks/results")
TABLE_ROWS: list[Row | Figure] = [*LOAD_ROWS, *FIGURES]
ALL_ROWS: list[Row | Figure | SparkRow] = [*TABLE_ROWS, *SPARK_ROWS]


def describe_machine() -> dict[str, Any]:
    """Say what was measured on, without names or paths."""
    model = "unknown processor"
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists() and (found := re.search(r"model name\s*:\s*(.+)", cpuinfo.read_text())):
        model = found[1]
    java = "none"
    try:
        printed = subprocess.run(["java", "-version"], capture_output=True, text=True, check=False).stderr
        java = printed.splitlines()[0]
    except (OSError, IndexError):
        pass
    return {
        "processor": model,
        "cores": os.cpu_count(),
        "memory_gb": round(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 1e9),
        "kernel": platform.release(),
        "python": f"{platform.python_version()}, {_build_of_python()}",
        "java": java,
        "rocketmq": JAVA_VERSION,
        "java_flags": {kind: " ".join(heap + JAVA_TUNING) for kind, heap in JAVA_HEAP.items()},
    }


def _build_of_python() -> str:
    """Say how this interpreter was built: the rule of scripts/find-python."""
    if sys.base_prefix == "/usr":
        return "the system's build"
    options = sysconfig.get_config_var("CONFIG_ARGS") or ""
    return "an optimised build" if "--enable-optimizations" in options else "built without optimisation"


def machine_slug(machine: dict[str, Any]) -> str:
    """Name a machine by its processor and cores, for a file's name."""
    words = re.sub(r"\(.*?\)|@.*|CPU|Processor", " ", machine["processor"])
    return re.sub(r"[^a-z0-9]+", "-", f"{words} {machine['cores']}-cores".lower()).strip("-")


def describe_commit() -> str:
    """Return the short hash of the commit that is measured, with a `+` where servers or benchmarks have been changed since."""
    try:
        head = _git("rev-parse", "--short", "HEAD")
        return head + ("+" if _git("status", "--porcelain", "--", *MEASURED) else "")
    except (OSError, subprocess.CalledProcessError):
        return "unknown"


def _git(*words: str) -> str:
    command = ["git", "-C", str(ROOT), *words]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()


def save(results: dict[str, Result], plan: dict[str, Any], *, keep: bool) -> Path:
    """Write what was measured to a dated file, and with `keep` merge what was not disturbed into the latest ones."""
    machine, now = describe_machine(), datetime.now(UTC)
    slug = machine_slug(machine)
    stamp = {"at": now.date().isoformat(), "commit": describe_commit()}
    stamped = {name: result | stamp for name, result in results.items()}
    RESULTS.mkdir(exist_ok=True)
    path = RESULTS / f"{now:%Y-%m-%d-%H%M%S}-{slug}.json"
    _write(path, {"machine": machine, "plan": plan, "rows": stamped})
    if keep:
        latest = RESULTS / f"latest-{slug}.json"
        rows = json.loads(latest.read_text())["rows"] if latest.exists() else {}
        kept = {name: result for name, result in stamped.items() if not is_disturbed(result)}
        _write(latest, {"machine": machine, "plan": plan, "rows": rows | kept})
        return latest
    return path


def _write(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1, sort_keys=True) + "\n")


def table(results: dict[str, Result]) -> str:
    """Return the results as a Markdown table in the order of the rows."""
    lines = [
        "| what | Java | ours | ours / Java | bar | p99 Java / ours | CPU each Java / ours | saturated Java / ours |",
        "|---|---:|---:|---:|---|---|---|---|",
    ]
    rows = [_line(row, results[row.name]) for row in TABLE_ROWS if row.name in results]
    tables = ["\n".join(lines + rows)] if rows else []
    tables += [spark_table(results)] if any(row.name in results for row in SPARK_ROWS) else []
    disturbed = [name for name, result in results.items() if is_disturbed(result)]
    if disturbed:
        tables.append(f"Other processes were at work: rates and ratios of {', '.join(disturbed)} say little.")
    return "\n\n".join(tables)


def spark_table(results: dict[str, Result]) -> str:
    """Return the results of Spark's cases next to Kafka's connector as a Markdown table."""
    lines = [
        "| what | Kafka | tuned | ours | ours / Kafka | ours / tuned | bars | more | CPU each Kafka / tuned / ours |",
        "|---|---:|---:|---:|---:|---:|---|---|---|",
    ]
    return "\n".join(lines + [_spark_line(row, results[row.name]) for row in SPARK_ROWS if row.name in results])


def _spark_line(row: SparkRow, result: Result) -> str:
    peers = sides(result)
    kafka, tuned, ours = (peers.get(peer) for peer in ("kafka", "tuned", "ours"))
    ratios = [ratio(ours, kafka), ratio(ours, tuned)]
    more = [f"{peer} {number(side)}" for peer, side in peers.items() if peer not in ("kafka", "tuned", "ours")]
    more += [f"{peer} p95 {number({'value': side['p95']})}" for peer, side in peers.items() if "p95" in side]
    cost = " / ".join(f"{side['cpu_us']:.2f} us" if side else "-" for side in (kafka, tuned, ours))
    numbers = [f"{number(side)} {row.unit}" if side else "-" for side in (kafka, tuned, ours)]
    return f"| {' | '.join([row.title, *numbers, *ratios, spark_bars(row, result), '; '.join(more), cost])} |"


def spark_bars(row: SparkRow, result: Result) -> str:
    """Return the bars of a case, each with whether it was reached."""
    shares = {} if is_disturbed(result) else row.shares(values(result))
    texts = [bar.text(is_time=row.is_time) for bar in row.bars]
    return "; ".join(f"{text}{verdict_text(shares[text] >= 1 if text in shares else None)}" for text in texts)


def verdict_text(reached: bool | None) -> str:
    """Return what a table says behind a bar; nothing where it cannot be told."""
    return "" if reached is None else ": reached" if reached else ": missed"


def sides(result: Result) -> dict[str, Result]:
    """Return what was measured of each peer."""
    return {peer: side for peer, side in result.items() if isinstance(side, dict)}


def values(result: Result) -> dict[str, float]:
    """Return the figure of each peer."""
    return {peer: side["value"] for peer, side in sides(result).items()}


def is_disturbed(result: Result) -> bool:
    """Return True if other processes took part of the machine while a row was measured."""
    return any(side.get("others_cpu", 0) > DISTURBED_CPU for side in sides(result).values())


def summary(results: dict[str, Result], bad: int, asked: Sequence[str] = ()) -> dict[str, Any]:
    """Return what was asked of the rows with a bar, what was measured, and whether all of them were reached.

    Args:
        bad: answers that were bad; a run with any reaches nothing.
        asked: the rows that were to be measured; one of them without a result has failed.
    """
    verdicts: dict[str, list[str]] = {}
    for row in ALL_ROWS:
        if has_bar(row) and (row.name in results or row.name in asked):
            verdicts.setdefault(_word(row, results.get(row.name)), []).append(row.name)
    count = sum(map(len, verdicts.values()))
    others = [f"{word}: {', '.join(names)}" for word, names in verdicts.items() if names and word != "reached"]
    reached = len(verdicts.get("reached", ()))
    return {
        "asked": f"{count} rows reach their bars, no bad answer",
        "measured": "; ".join([f"{reached} of {count} bars reached, {bad} bad answers", *others]),
        "reached": count > 0 and reached == count and not bad,
    }


def has_bar(row: Row | Figure | SparkRow) -> bool:
    """Return True if a row has something to reach."""
    return bool(row.bars if isinstance(row, SparkRow) else row.bar)


def _word(row: Row | Figure | SparkRow, result: Result | None) -> str:
    if result is None:
        return "not measured"
    if is_disturbed(result):
        return "disturbed"
    if isinstance(row, SparkRow):
        shares = row.shares(values(result))
        verdict = all(share >= 1 for share in shares.values()) if len(shares) == len(row.bars) else None
    else:
        verdict = judge(row.bar, result.get("java"), result.get("ours"))
    return {True: "reached", False: "missed", None: "not compared"}[verdict]


def _line(row: Row | Figure, result: Result) -> str:
    java, ours = result.get("java"), result.get("ours")
    unit = f" {row.unit}" if isinstance(row, Figure) else "/s"
    verdict = None if is_disturbed(result) else judge(row.bar, java, ours)
    bar = f"{row.bar.text(unit.strip())}{verdict_text(verdict)}" if row.bar else ""
    p99 = " / ".join(f"{side['p99_us'] / 1000:.2f} ms" if side and "p99_us" in side else "-" for side in (java, ours))
    cost = " / ".join(
        f"{side['server_cpu_us']:.1f} us" if side and "server_cpu_us" in side else "-" for side in (java, ours)
    )
    saturated = " / ".join(side.get("saturated", "-") if side else "-" for side in (java, ours))
    bad = "".join(f" ({side['bad']} bad)" for side in (java, ours) if side and side["bad"])
    numbers = f"{number(java)}{unit} | {number(ours)}{unit} | {ratio(ours, java)}"
    return f"| {row.title} | {numbers} | {bar} | {p99} | {cost} | {saturated}{bad} |"


def ratio(side: Result | None, rival: Result | None) -> str:
    """Return a side's figure as a multiple of a rival's."""
    return f"{side['value'] / rival['value']:.2f}" if side and rival and rival["value"] else "-"


def number(side: Result | None) -> str:
    """Return a side's figure."""
    if side is None:
        return "-"
    value = side["value"]
    return f"{value:,.{0 if value >= 100 or not value else 1 if value >= 10 else 2}f}"


def judge(bar: Bar | None, java: Result | None, ours: Result | None) -> bool | None:
    """Return True if `bar` was reached; None when it cannot be told."""
    if bar is None or ours is None:
        return None
    claims = []
    if bar.at_least is not None:
        claims.append(ours["value"] >= bar.at_least)
    if bar.at_most is not None:
        claims.append(ours["value"] <= bar.at_most)
    if any(ratio is not None for ratio in (bar.ratio, bar.at_most_ratio, bar.p99_ratio)):
        if java is None:
            return None
        if bar.ratio is not None:
            claims.append(ours["value"] >= bar.ratio * java["value"])
        if bar.at_most_ratio is not None:
            claims.append(ours["value"] <= bar.at_most_ratio * java["value"])
        if bar.p99_ratio is not None:
            claims.append(ours["p99_us"] <= bar.p99_ratio * java["p99_us"])
    return all(claims)
