"""Hosts of our own on this machine: network namespaces on one bridge, whose cables can be pulled.

Needs root and iproute2. Everything is named after the process, so that a crashed run does not disturb the next one.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from itertools import cycle

_letters = cycle("abcdefgh")  # names of interfaces have 15 characters; the last lab's may linger for a moment
SUBNET = f"10.213.{os.getpid() % 256}"  # two runs at the same time must not share addresses
RUNNER_NUMBER = 254


def is_available() -> bool:
    """Return True if this machine lets us make namespaces."""
    return os.geteuid() == 0 and shutil.which("ip") is not None and _can_make_one()


@dataclass(frozen=True, slots=True)
class Host:
    """One host: a namespace with one address, at the end of one cable."""

    name: str
    ip: str
    cable: str

    def command(self, *words: str) -> list[str]:
        """Return the command line that runs `words` on this host."""
        return ["ip", "netns", "exec", self.name, *words]

    def unplug(self) -> None:
        """Pull the cable: packets vanish silently, both ways; connections do not notice."""
        _ip("link", "set", self.cable, "nomaster")

    def plug(self, bridge: str) -> None:
        _ip("link", "set", self.cable, "master", bridge)

    def freeze(self) -> None:
        """Stop every process of this host (SIGSTOP); its kernel goes on."""
        self._signal(signal.SIGSTOP)

    def thaw(self) -> None:
        """Let every process of this host go on."""
        self._signal(signal.SIGCONT)

    def reset_connections(self) -> None:
        """End every connection of this host with a TCP reset to the other side."""
        _run(*self.command("ss", "--kill", "--tcp", "state", "established"))

    def _signal(self, number: signal.Signals) -> None:
        for pid in _run("ip", "netns", "pids", self.name).split():
            os.kill(int(pid), number)


@dataclass(frozen=True, slots=True)
class Lab:
    """Hosts by name, all on one bridge; the test's own process is on it too, as `runner_ip`."""

    bridge: str
    hosts: dict[str, Host]
    runner_ip: str

    def partition(self, *names: str) -> None:
        """Cut hosts off, each from all others."""
        for name in names:
            self.hosts[name].unplug()

    def heal(self) -> None:
        for host in self.hosts.values():
            host.plug(self.bridge)


@contextmanager
def lab(*names: str) -> Iterator[Lab]:
    """Make hosts with these names and take them away afterwards."""
    tag = f"o{os.getpid() % 100_000}{next(_letters)}"
    bridge = f"{tag}br"
    hosts = {
        name: Host(f"{tag}-{name}", f"{SUBNET}.{number}", f"{tag}c{number}")
        for number, name in enumerate(names, start=1)
    }
    try:
        _ip("link", "add", bridge, "type", "bridge")
        _ip("addr", "add", f"{SUBNET}.{RUNNER_NUMBER}/24", "dev", bridge)
        _ip("link", "set", bridge, "up")
        for host in hosts.values():
            _add(host, bridge)
        yield Lab(bridge, hosts, f"{SUBNET}.{RUNNER_NUMBER}")
    finally:
        for host in hosts.values():
            # The kernel takes a namespace's end of a cable away in its own time; this end goes now.
            subprocess.run(["ip", "link", "del", host.cable], check=False, capture_output=True)
            subprocess.run(["ip", "netns", "del", host.name], check=False, capture_output=True)
        subprocess.run(["ip", "link", "del", bridge], check=False, capture_output=True)


def _add(host: Host, bridge: str) -> None:
    _ip("netns", "add", host.name)
    _ip("link", "add", host.cable, "type", "veth", "peer", "name", "eth0", "netns", host.name)
    _ip("link", "set", host.cable, "master", bridge)
    _ip("link", "set", host.cable, "up")
    _ip("-n", host.name, "addr", "add", f"{host.ip}/24", "dev", "eth0")
    _ip("-n", host.name, "link", "set", "eth0", "up")
    _ip("-n", host.name, "link", "set", "lo", "up")


def _can_make_one() -> bool:
    name = f"o{os.getpid() % 100_000}-probe"
    made = subprocess.run(["ip", "netns", "add", name], check=False, capture_output=True)
    subprocess.run(["ip", "netns", "del", name], check=False, capture_output=True)
    return made.returncode == 0


def _ip(*words: str) -> None:
    _run("ip", *words)


def _run(*words: str) -> str:
    done = subprocess.run(words, check=False, capture_output=True, text=True)
    if done.returncode:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip()}")
    return done.stdout
