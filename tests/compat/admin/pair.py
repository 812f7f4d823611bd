"""The pairs of brokers that administrators' scenarios are told to: as they are without users, and with authentication on."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from compat.admin.access import ROOT
from compat.admin.answers import normalise, take_away
from compat.admin.clients import answer
from compat.admin.reasons import ends_silently, reason_of
from compat.broker.comparison import Rules
from compat.broker.pair import both_brokers
from compat.broker.sides import Side
from interop.peers import guarded
from orbitmq.wire.signature import Credentials

RULES = Rules(normalise, take_away, reason_of, ends_silently, pushes=frozenset((220, 221, 307, 309)))


@contextlib.contextmanager
def open_brokers(home: Path, *, is_quick: bool = False) -> Iterator[tuple[Side, Side]]:
    """Run both without users."""
    with both_brokers(home, is_quick=is_quick, answer=answer) as pair:
        yield pair


@contextlib.contextmanager
def guarded_brokers(home: Path, *, is_quick: bool = False) -> Iterator[tuple[Side, Side]]:
    """Run both with authentication and authorization on."""
    superuser = Credentials(*ROOT)
    javas, ours = guarded(superuser, Credentials("inner", "inner-secret"))
    with both_brokers(home, is_quick=is_quick, javas=javas, ours=ours, answer=answer, superuser=superuser) as pair:
        yield pair
