"""A broker in a process of its own, and what can be seen of it from outside: its memory."""

from __future__ import annotations

from pathlib import Path

from hostile.victim import ServerVictim

_NOBODY = "127.0.0.1:9"
"""A NameServer that does not answer: brokers serve without one."""


class BrokerVictim(ServerVictim):
    """A broker."""

    def __init__(self, **settings: object) -> None:
        super().__init__("broker", "-n", _NOBODY, "--name", "victim", settings=settings)

    @property
    def memory_mb(self) -> float:
        """Memory of its own: pages of mapped files are the kernel's to take back."""
        status = Path(f"/proc/{self.process_id}/status")
        if status.exists():
            (line,) = (line for line in status.read_text().splitlines() if line.startswith("RssAnon"))
            return int(line.split()[1]) / 1024
        return super().memory_mb
