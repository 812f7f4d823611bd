"""Pages of an HTTP server: functions from a query to an answer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from orbitmq.errors import InvalidArgument
from orbitmq.wire.slices import Slices

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"


class Answer(NamedTuple):
    """A page's answer to one query."""

    body: bytes
    status: int = 200
    content_type: str = TEXT


@dataclass(frozen=True, slots=True)
class Page:
    """A page and the parameters that its query may have.

    Args:
        show: gets the query's parameters. Refuses bad ones by raising an OrbitError; a large answer is made in slices.
        parameters: their names; a query with another one is refused, because it would be answered otherwise than meant.
    """

    show: Callable[[Mapping[str, str]], Answer | Slices[Answer]]
    parameters: tuple[str, ...] = ()

    def __call__(self, query: Mapping[str, str]) -> Answer | Slices[Answer]:
        """Answer a query.

        Raises:
            InvalidArgument: the page has no such parameter.
        """
        for name in query:
            if name not in self.parameters:
                raise InvalidArgument("query", name, self._allowed())
        return self.show(query)

    def _allowed(self) -> str:
        return f"one of {', '.join(self.parameters)}" if self.parameters else "no parameter: this page has none"
