"""Pages that are followed from their top to their end: files are written, commands typed."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import psutil

BLOCK = re.compile(r"^```(sh|python)\n(.*?)^```", re.DOTALL | re.MULTILINE)
FILE = re.compile(r"# file: (\S+)\n")
SERVERS = ("orbitmq up", "orbitmq nameserver", "orbitmq broker")
"""What another terminal runs."""
TIMEOUT_S = 240


def steps_of(page: Path) -> list[str]:
    """Return the parts of a page, one for each heading of second order."""
    return re.split(r"^## ", page.read_text(), flags=re.MULTILINE)[1:]


class Folder:
    """A terminal: a folder, and the NameServer that its commands ask."""

    def __init__(self, home: Path) -> None:
        self.home = home
        programs = str(Path(sys.executable).parent)
        self.environment = os.environ | {
            "PATH": f"{programs}{os.pathsep}{os.environ['PATH']}",
            "XDG_DATA_HOME": str(home),
        }

    @contextmanager
    def up(self, command: str) -> Iterator[psutil.Process]:
        """Run the first terminal's command, on ports that are free."""
        ports = ["--nameserver-port", "0", "--broker-port", "0"]
        ports += ["--dashboard-port", "0"] if "--dashboard" in command else []
        with self.serve(f"{command} {' '.join(ports)}") as (process, ready):
            self.environment["NAMESRV_ADDR"] = ready["nameserver"]
            yield process

    @contextmanager
    def serve(self, command: str) -> Iterator[tuple[psutil.Process, dict[str, Any]]]:
        """Run a command that serves; yield its process and its ready line."""
        words = [*command.split(), "-o", "json"]
        with subprocess.Popen(words, cwd=self.home, env=self.environment, stdout=subprocess.PIPE, text=True) as process:
            assert process.stdout is not None
            try:
                yield psutil.Process(process.pid), json.loads(process.stdout.readline())
            finally:
                process.send_signal(signal.SIGINT)

    def type(self, text: str) -> str:
        """Type commands, each of which has to succeed; return what they print."""
        run: Any = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", text],
            cwd=self.home,
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=TIMEOUT_S,
            check=False,
        )
        assert run.returncode == 0, f"{text}\n{run.stdout}\n{run.stderr}"
        return str(run.stdout)

    def follow(self, step: str) -> list[str]:
        """Write a step's files and type its commands; return what each block of commands prints."""
        printed = []
        for kind, text in BLOCK.findall(step):
            if kind == "python":
                named = FILE.match(text)
                assert named is not None
                (self.home / named[1]).write_text(text)
            elif not text.startswith(SERVERS):
                printed.append(self.type(text))
        return printed
