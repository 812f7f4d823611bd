"""A tally of what was compared: commands by code, differences, and where the next run goes on."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path


@dataclass
class Tally:
    """Counted over all runs that share a file.

    Args:
        next_scenario: that the next run begins with.
        counts: commands, by code.
        listed: differences by intention, by the name of their reason.
        differences: others, shrunk, as they are shown, by their kinds.
        silences: scenarios in which a broker was silent; each is told again, to fresh brokers.
    """

    next_scenario: int = 0
    scenarios: int = 0
    seconds: float = 0.0
    counts: Counter[int] = field(default_factory=Counter)
    listed: Counter[str] = field(default_factory=Counter)
    differences: dict[str, str] = field(default_factory=dict)
    silences: list[str] = field(default_factory=list)

    @classmethod
    def read(cls, path: Path | None, first_scenario: int) -> Tally:
        """Return what a file says; without one, a tally that begins with a scenario."""
        if path is None or not path.exists():
            return cls(first_scenario)
        kept = json.loads(path.read_text())
        counts = Counter({int(code): number for code, number in kept.pop("counts").items()})
        return cls(**kept | {"counts": counts, "listed": Counter(kept["listed"])})

    def write(self, path: Path | None) -> None:
        """Keep it in a file, if there is to be one."""
        if path is not None:
            additional = path.with_name(f"{path.name}.new")
            additional.write_text(json.dumps(vars(self), indent=1))
            additional.replace(path)

    def note_silence(self, scenario: int, silence: Exception) -> None:
        """Note that a broker was silent in a scenario, the last one told, and tell it again; the second time it is a difference."""
        note = f"scenario {scenario}: {silence}"
        if any(earlier.startswith(f"scenario {scenario}: ") for earlier in self.silences):
            self.differences[str(silence)] = note
        else:
            self.next_scenario = scenario
            self.scenarios -= 1
        self.silences.append(note)

    def report(self, reasons: Iterable[str]) -> None:
        """Print how many commands of each code were compared, and what differed for reasons of these names."""
        total = f"{self.counts.total():,} commands to each"
        scenario = self.next_scenario - 1
        print(f"{total}, in {self.scenarios:,} scenarios, in {self.seconds:.0f} s, up to scenario {scenario}; by code:")
        print("  " + ", ".join(f"{code} {number:,}" for code, number in sorted(self.counts.items())))
        print("different by intention (docs/compatibility.md), times:")
        for name in dict.fromkeys(reasons):
            if self.listed[name]:
                print(f"  {self.listed[name]:,} {name}")
        for silence in self.silences:
            print(f"silent: {silence}")
        print(f"{total}: {len(self.differences)} kinds of difference left")
