"""The tables of README.md and of benchmarks/README.md: written from the kept results of the reference machine, and compared by a test."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date
from pathlib import Path
from typing import Any

from benchmarks.load import BenchmarkError
from benchmarks.measure import Result
from benchmarks.report import ALL_ROWS, RESULTS, ROOT, TABLE_ROWS, judge, sides, spark_bars, verdict_text
from benchmarks.rows import SPARK_ROWS, Figure, Row, SparkRow

README, ALL = ROOT / "README.md", ROOT / "benchmarks" / "README.md"
REFERENCE = RESULTS / "latest-amd-epyc-2-cores.json"
BEGIN, END = "<!-- benchmarks -->\n", "<!-- /benchmarks -->\n"
SMALLER_IS_BETTER = ("ms", "s", "MB")
IN_COLUMNS = ("kafka", "tuned", "ours", "floor")
SUMMARY = {
    "route-k8-50x16": ("route queries a second, 50 connections", "java", "/s"),
    "start-up": ("NameServer and broker: start to the first SEND_OK", "java", "ms"),
    "memory-broker-idle": ("a broker's memory, idle", "java", "MB"),
    "restart-2gb": ("`kill -9` of a broker with 2 GB: to the first SEND_OK", "java", "ms"),
    "spark-all": ("Spark reads a topic, 1 KiB, all columns (theirs: Kafka's connector)", "kafka", "rows/s"),
}
"""Rows of README.md: what each is called there, its rival, its unit."""
SPARK_INTRODUCTION = """
Spark reads the same rows with Kafka's connector, as it is and *tuned* (`fetch.max.wait.ms=10`), and with ours; both
servers and Spark share all cores. *local* is ours with `localReads`, *one column* ours with `columns=queueOffset`.

"""


def rewrite() -> None:
    """Write the tables into both pages."""
    for page, table in tables(kept_results()).items():
        page.write_text(rewritten(page.read_text(encoding="utf-8"), table), encoding="utf-8")


def kept_results() -> dict[str, Any]:
    """Return the kept results of the reference machine."""
    kept: dict[str, Any] = json.loads(REFERENCE.read_text(encoding="utf-8"))
    return kept


def tables(kept: Mapping[str, Any]) -> dict[Path, str]:
    """Return each page's table."""
    return {README: summary(kept), ALL: section(kept)}


def rewritten(page: str, table: str) -> str:
    """Return a page with a table between its two comments."""
    before, begin, rest = page.partition(BEGIN)
    _, end, behind = rest.partition(END)
    if not begin or not end:
        raise BenchmarkError(f"the page has no place for its table: {BEGIN.strip()} and {END.strip()} are missing")
    return f"{before}{BEGIN}{table}{END}{behind}"


def summary(kept: Mapping[str, Any]) -> str:
    """Return the few rows of README.md; sends as the range over their shapes."""
    results: dict[str, Result] = kept["rows"]
    sends = [
        _times(results[row.name])
        for row in TABLE_ROWS
        if row.name.startswith("send-") and _times(results.get(row.name))
    ]
    lines = [
        f"| {title} | {_quantity(sides(results[name]).get(peer), unit)} | {_quantity(sides(results[name])['ours'], unit)} "
        f"| {_ratio(sides(results[name])['ours'], sides(results[name]).get(peer), unit)} |"
        for name, (title, peer, unit) in SUMMARY.items()
        if name in results
    ]
    if sends:
        lines.insert(
            1,
            f"| sends of 100 B and 1 KiB, acknowledged in memory or on the disk | | | {min(sends):.2f} to {max(sends):.2f} |",
        )
    return "\n".join(("| what | theirs | ours | ratio |", "|---|---:|---:|---:|", *lines)) + "\n"


def _times(result: Result | None) -> float:
    peers = sides(result) if result else {}
    java, ours = peers.get("java"), peers.get("ours")
    return ours["value"] / java["value"] if java and ours and java["value"] else 0.0


def section(kept: Mapping[str, Any]) -> str:
    """Return the tables of kept rows, and what they were measured on."""
    results: dict[str, Result] = kept["rows"]
    lines = [_line(row, results[row.name]) for row in TABLE_ROWS if row.name in results]
    spark_lines = [_spark_line(row, results[row.name]) for row in SPARK_ROWS if row.name in results]
    parts = [
        f"{_about(kept)}\n\n",
        "| what, one core unless said | Java 5.3.3 | ours | ratio | bar |\n|---|---:|---:|---:|---|\n",
        *(f"{line}\n" for line in lines),
    ]
    if spark_lines:
        parts += [
            SPARK_INTRODUCTION,
            "| what | Kafka | tuned | ours | ours / Kafka | ours / tuned | more | bars |\n",
            "|---|---:|---:|---:|---:|---:|---|---|\n",
            *(f"{line}\n" for line in spark_lines),
        ]
    return "".join(parts)


def _about(kept: Mapping[str, Any]) -> str:
    machine, known = kept["machine"], {row.name for row in ALL_ROWS}
    rows = [row for name, row in kept["rows"].items() if name in known]
    days = sorted({date.fromisoformat(row["at"]) for row in rows})
    commits = dict.fromkeys(row["commit"] for row in sorted(rows, key=lambda row: str(row["at"])) if "commit" in row)
    said = [
        f"Measured {_days(days)}" if days else "Measured",
        f"commit{'s' if len(commits) > 1 else ''} {', '.join(commits)}" if commits else "",
        f"{machine['processor']} with {machine['cores']} cores",
        f"Python {machine['python']}",
    ]
    return "; ".join(part for part in said if part) + "."


def _days(days: list[date]) -> str:
    first, last = (f"{day.day} {day:%B %Y}" for day in (days[0], days[-1]))
    return first if first == last else f"{first} to {last}"


def _line(row: Row | Figure, result: Result) -> str:
    peers, unit = sides(result), row.unit if isinstance(row, Figure) else "/s"
    java, ours = peers.get("java"), peers.get("ours")
    bar = f"{row.bar.text(unit)}{verdict_text(judge(row.bar, java, ours))}" if row.bar else ""
    cells = [row.title, _quantity(java, unit), _quantity(ours, unit), _ratio(ours, java, unit), bar]
    return f"| {' | '.join(cells)} |"


def _spark_line(row: SparkRow, result: Result) -> str:
    peers = sides(result)
    kafka, tuned, ours = (peers.get(peer) for peer in ("kafka", "tuned", "ours"))
    more = [f"{peer} {_quantity(side, row.unit)}" for peer, side in peers.items() if peer not in IN_COLUMNS]
    cells = [row.title, *(_quantity(side, row.unit) for side in (kafka, tuned, ours))]
    cells += [_ratio(ours, rival, row.unit) for rival in (kafka, tuned)]
    return f"| {' | '.join([*cells, ', '.join(more), spark_bars(row, result)])} |"


def _quantity(side: Result | None, unit: str) -> str:
    """Return a figure with its unit, as short as a reader wants it."""
    if side is None:
        return ""
    value = side["value"]
    if unit.endswith("/s"):
        what = unit.removesuffix("/s")
        number = f"{_short(value / 1000)} k" if value >= 1000 else f"{value:.0f}"
        return f"{number} {what}/s" if what else f"{number}/s"
    if unit == "ms":
        return f"{value / 1000:.1f} s" if value >= 1000 else f"{value:.0f} ms"
    if unit == "MB":
        return f"{value:,.0f} MB"
    return f"{value:.2f} {unit}" if value else f"0 {unit}"


def _ratio(side: Result | None, rival: Result | None, unit: str) -> str:
    if not side or not rival or not side["value"] or not rival["value"]:
        return ""
    times = side["value"] / rival["value"]
    if unit in SMALLER_IS_BETTER and times < 1:
        return f"1/{_short(1 / times)}"
    return f"{times:.2f}" if times < 10 else _short(times)


def _short(value: float) -> str:
    return f"{value:.0f}" if value >= 100 else f"{value:.1f}"
