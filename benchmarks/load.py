"""The C load generator: compiled when first needed, run with keyword options, its JSON parsed."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import subprocess
from pathlib import Path
from typing import Any

SOURCES = Path(__file__).parent / "loadgen"
BUILD = Path(__file__).parent.parent / "build" / "benchmarks"


class BenchmarkError(Exception):
    """Something that a benchmark needs is missing or broken; the text says what to do."""


def compile_loadgen() -> Path:
    """Return the load generator's program, compiled from its source when that has changed."""
    sources = sorted(SOURCES.glob("*.[ch]"))
    digest = hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]
    program = BUILD / f"loadgen-{digest}"
    if program.exists():
        return program
    compiler = os.environ.get("CC") or next(filter(shutil.which, ("cc", "gcc", "clang")), None)
    if compiler is None:
        raise BenchmarkError("the benchmarks need a C compiler: install gcc or clang, or name one in CC")
    BUILD.mkdir(parents=True, exist_ok=True)
    unfinished = program.with_suffix(f".{os.getpid()}")
    command = [
        compiler,
        "-O2",
        "-Wall",
        "-Wextra",
        "-o",
        str(unfinished),
        *(str(source) for source in sources if source.suffix == ".c"),
    ]
    built = subprocess.run(command, capture_output=True, text=True, check=False)
    if built.returncode:
        raise BenchmarkError(f"{compiler} could not compile the load generator:\n{built.stderr}")
    unfinished.rename(program)
    return program


def run_load(**options: object) -> dict[str, Any]:
    """Run the load generator and return what it measured; `body_size=100` becomes `--body-size 100`."""
    command = [str(compile_loadgen())]
    for name, value in options.items():
        if value is not None:
            command += [f"--{name.replace('_', '-')}", str(value)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise BenchmarkError(f"{' '.join(command[1:])}: {done.stderr.strip()}")
    measured: dict[str, Any] = json.loads(done.stdout)
    measured["remarks"] = done.stderr.strip()
    return measured
