"""Results as JSON and as a table of ratios."""

from __future__ import annotations

import json
import os
import platform
import re
import subprocess
import sys
import sysconfig
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from benchmarks.measure import Result
from benchmarks.rows import FIGURES, LOAD_ROWS, Bar, Figure, Row
from benchmarks.servers import JAVA_HEAP, JAVA_TUNING, JAVA_VERSION

DISTURBED_CPU = 0.25  # of one core, taken by others
RESULTS = Path(__file__).parent / "results"
ALL_ROWS: list[Row | Figure] = [*LOAD_ROWS, *FIGURES]


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


def save(results: dict[str, Result], plan: dict[str, Any], *, keep: bool) -> Path:
    """Write what was measured to a dated file, and with `keep` merge what was not disturbed into the latest ones."""
    machine, now = describe_machine(), datetime.now(UTC)
    slug = machine_slug(machine)
    stamped = {name: result | {"at": now.date().isoformat()} for name, result in results.items()}
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
    lines += [_line(row, results[row.name]) for row in ALL_ROWS if row.name in results]
    disturbed = [name for name, result in results.items() if is_disturbed(result)]
    if disturbed:
        lines += ["", f"Other processes were at work: rates and ratios of {', '.join(disturbed)} say little."]
    return "\n".join(lines)


def is_disturbed(result: Result) -> bool:
    """Say whether other processes took part of the machine while a row was measured."""
    return any(side.get("others_cpu", 0) > DISTURBED_CPU for side in (result.get("java"), result.get("ours")) if side)


def summary(results: dict[str, Result], bad: int) -> dict[str, Any]:
    """Return what was asked of the rows with a bar, what was measured, and whether all of them were reached.

    Args:
        bad: answers that were bad; a run with any reaches nothing.
    """
    verdicts: dict[str, list[str]] = {"reached": [], "missed": [], "disturbed": [], "not compared": []}
    for row in ALL_ROWS:
        if row.bar is None or (result := results.get(row.name)) is None:
            continue
        verdict = judge(row.bar, result.get("java"), result.get("ours"))
        word = (
            "disturbed" if is_disturbed(result) else {True: "reached", False: "missed", None: "not compared"}[verdict]
        )
        verdicts[word].append(row.name)
    count = sum(map(len, verdicts.values()))
    others = [f"{word}: {', '.join(names)}" for word, names in verdicts.items() if names and word != "reached"]
    reached = len(verdicts["reached"])
    return {
        "asked": f"{count} rows reach their bars, no bad answer",
        "measured": "; ".join([f"{reached} of {count} bars reached, {bad} bad answers", *others]),
        "reached": count > 0 and reached == count and not bad,
    }


def _line(row: Row | Figure, result: Result) -> str:
    java, ours = result.get("java"), result.get("ours")
    unit = f" {row.unit}" if isinstance(row, Figure) else "/s"
    ratio = f"{ours['value'] / java['value']:.2f}" if java and ours and java["value"] else "-"
    verdict = None if is_disturbed(result) else judge(row.bar, java, ours)
    bar = f"{row.bar}{'' if verdict is None else ': reached' if verdict else ': MISSED'}" if row.bar else ""
    p99 = " / ".join(f"{side['p99_us'] / 1000:.2f} ms" if side and "p99_us" in side else "-" for side in (java, ours))
    cost = " / ".join(
        f"{side['server_cpu_us']:.1f} us" if side and "server_cpu_us" in side else "-" for side in (java, ours)
    )
    sides = " / ".join(side.get("saturated", "-") if side else "-" for side in (java, ours))
    bad = "".join(f" ({side['bad']} bad)" for side in (java, ours) if side and side["bad"])
    return f"| {row.title} | {_number(java)}{unit} | {_number(ours)}{unit} | {ratio} | {bar} | {p99} | {cost} | {sides}{bad} |"


def _number(side: Result | None) -> str:
    if side is None:
        return "-"
    value = side["value"]
    return f"{value:,.0f}" if value >= 100 else f"{value:.1f}"


def judge(bar: Bar | None, java: Result | None, ours: Result | None) -> bool | None:
    """Say whether `bar` was reached; None when it cannot be told."""
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
