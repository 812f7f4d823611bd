"""Pages of an HTTP server: functions from a query to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from orbitmq.wire.slices import Slices

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """A page's answer to one query."""

    body: bytes
    status: int = 200
    content_type: str = TEXT


Page = Callable[[Mapping[str, str]], Answer | Slices[Answer]]
"""Gets the query's parameters. Refuses bad ones by raising an OrbitError; a large answer is made in slices."""
