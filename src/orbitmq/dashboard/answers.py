"""From a page to an answer: HTML for people, or the same values as JSON under `Accept: application/json`.

What comes from a cluster is text, and never markup: templates escape it, and the policy lets no script run but the dashboard's own.
"""

from __future__ import annotations

import json
import secrets
import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote, urlencode

import orjson
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markupsafe import Markup
from starlette.convertors import Convertor
from starlette.requests import Request
from starlette.responses import HTMLResponse, Response

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.each_master import notices_of
from orbitmq.errors import InvalidArgument, OrbitError, RouteNotFound
from orbitmq.model.topic import permission_word

HEADERS = {
    "content-security-policy": (
        "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; "
        "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
    ),
    "x-content-type-options": "nosniff",
    "referrer-policy": "same-origin",  # without a referrer, the Origin of our own forms would be null
    "cache-control": "no-store",
}
PAGE_SIZE = 50
_FOLDER = Path(__file__).parent


class Column(NamedTuple):
    """A column of a table.

    Args:
        key: of its values in the rows.
        title: over it.
        kind: text, number, time, or code.
        to: the parts of the page that its cells lead to, with the row's values in braces.
    """

    key: str
    title: str
    kind: str = "text"
    to: Sequence[str] = ()

    def href(self, row: Mapping[str, Any]) -> str | None:
        """Return where a row's cell leads to."""
        return link(*(part.format_map(row) for part in self.to)) if self.to and row.get(self.key) else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Section:
    """A table of a page.

    Args:
        name: of its rows in JSON.
        empty: said where there are no rows.
        note: said over the table.
    """

    name: str
    title: str
    columns: Sequence[Column]
    rows: Sequence[Mapping[str, Any]]
    empty: str = "Nothing."
    note: str | None = None


@dataclass(frozen=True, slots=True)
class Page:
    """What a page shows.

    Args:
        template: its file.
        title: of the window.
        values: what the template, or the reader of JSON, is given.
        status: of HTTP.
        sections: its tables, whose rows are given to the reader of JSON.
    """

    template: str
    title: str
    values: Mapping[str, Any]
    status: int = 200
    sections: Sequence[Section] = ()


Show = Callable[[Request, ClusterClients], Awaitable[Page]]
"""Makes a page. Raises OrbitError, which becomes a page of its own."""


def time_text(time_ms: int | None) -> str:
    """Return a time in UTC to the second; a dash for none, and the number for one that no calendar has."""
    if not time_ms or time_ms < 0:
        return "–"
    try:
        return datetime.fromtimestamp(time_ms / 1000, tz=UTC).strftime("%Y-%m-%d %H:%M:%S")
    except (ValueError, OverflowError, OSError):
        return f"{time_ms} ms"


def time_element(time_ms: int | None) -> str:
    """Return a time as `time_text` does, as an element that the page's script shows in the reader's own zone."""
    text = time_text(time_ms)
    if not text[:1].isdecimal() or text.endswith("ms"):
        return text
    return Markup('<time datetime="{}Z">{}</time>').format(text.replace(" ", "T"), text)


def age_text(time_ms: int | None) -> str:
    """Return how long ago a time was, in its largest unit; a dash for none."""
    if not time_ms or time_ms < 0:
        return "–"
    return duration_text(time.time() - time_ms / 1000)


def duration_text(duration_s: float) -> str:
    """Return a duration in its largest unit."""
    seconds = max(0, int(duration_s))
    for size, unit in ((86_400, "d"), (3_600, "h"), (60, "min")):
        if seconds >= size:
            return f"{seconds // size} {unit}"
    return f"{seconds} s"


def ms_duration_text(duration_ms: int | None) -> str:
    """Return a duration in its largest unit; a dash for an unknown one."""
    return "–" if duration_ms is None else duration_text(duration_ms / 1000)


def count_text(value: float | None) -> str:
    """Return a number with its thousands apart; a dash for none."""
    if value is None:
        return "–"
    return _decimal(value) if isinstance(value, float) else f"{value:,}"


def rounded_text(value: float) -> str:
    """Return a number with its thousands apart, and with one decimal where it is not whole; two digits where it is below 1."""
    return f"{value:,.0f}" if value == int(value) else _decimal(value)


def _decimal(value: float) -> str:
    """Return a number with one decimal; with two digits where it is below 1, so that few in a minute are not 0."""
    return f"{value:.2g}" if 0.0001 <= abs(value) < 1 else f"{value:,.1f}"


def scale_text(value: float) -> str:
    """Return a number of an axis, in at most six characters up to 10^14."""
    if value < 10_000:
        return rounded_text(value)
    size, unit = next(
        (size, unit) for size, unit in ((10**12, "T"), (10**9, "G"), (10**6, "M"), (10**3, "k")) if value >= size
    )
    return f"{value / size:g} {unit}"


def link(*parts: str, **query: object) -> str:
    """Return the path of a page whose parts may be any text."""
    path = "/" + "/".join(quote(part, safe="") for part in parts)
    found = {name: value for name, value in query.items() if value not in (None, "")}
    return path + (f"?{urlencode(found)}" if found else "")


class AnyText(Convertor[str]):
    """A part of a path that clients chose, such as a message id: with slashes and ends of lines, too."""

    regex = "(?s:.+)"

    def convert(self, value: str) -> str:
        """Return the part as it is."""
        return value

    def to_string(self, value: str) -> str:
        """Return the part as it is."""
        return value


def quoted_path(request: Request) -> str:
    """Return the path of a request as links need it: the names of topics may hold a percent sign."""
    return quote(request.scope["path"])


_environment = Environment(
    loader=FileSystemLoader(_FOLDER / "templates"), autoescape=True, undefined=StrictUndefined, trim_blocks=True
)
_environment.globals.update(link=link, once=lambda: secrets.token_urlsafe(16))
_environment.filters.update(
    ms_duration=ms_duration_text,
    rounded=rounded_text,
    scale=scale_text,
    permission=permission_word,
    time=time_element,
    time_text=time_text,
    age=age_text,
    count=count_text,
    duration=duration_text,
)


def is_json_wanted(request: Request) -> bool:
    """Return True if a program asks, and not a browser."""
    return "application/json" in request.headers.get("accept", "")


def answer(request: Request, page: Page) -> Response:
    """Return a page in the form that its reader asks for."""
    if is_json_wanted(request):
        values = {**page.values, **{section.name: section.rows for section in page.sections}}
        return Response(dump_json(values), page.status, HEADERS, "application/json")
    session = getattr(request.state, "session", None)
    html = _environment.get_template(page.template).render(
        title=page.title,
        path=request.url.path,
        name_servers=request.app.state.clients.name_servers,
        session=session,
        notices=() if session is None else session.take_notices(),
        has_login=request.app.state.logins is not None,
        sections={section.name: section for section in page.sections},
        **page.values,
    )
    return HTMLResponse(html.encode("utf-8", "backslashreplace"), page.status, HEADERS)


def dump_json(values: Any) -> bytes:
    """Return values as JSON; a lone surrogate, which JSON of others may hold, is escaped."""
    try:
        return orjson.dumps(values, default=_plain, option=orjson.OPT_NON_STR_KEYS)
    except orjson.JSONEncodeError:
        return json.dumps(values, default=_plain).encode()


def error_page(error: Exception) -> Page:
    """Return the page that says what went wrong."""
    status = 404 if isinstance(error, RouteNotFound) else 400 if isinstance(error, InvalidArgument) else 502
    text = ". ".join([str(error), *getattr(error, "__notes__", ())])
    return Page("error.html", "Error", {"error": text}, status)


async def answer_page(request: Request, show: Show) -> Response:
    """Answer with a page; an error of the cluster becomes one, too."""
    try:
        page = await show(request, request.state.session.clients)
    except OrbitError as error:
        page = error_page(error)
    return answer(request, page)


def missing(problems: Mapping[str, str]) -> str | None:
    """Return whose part a page does not show, by broker name and what is wrong there; None: it shows all."""
    return "; ".join(notices_of(problems)) or None


def paged(request: Request, rows: Sequence[Any]) -> tuple[Sequence[Any], dict[str, int]]:
    """Return the rows of the page that is asked for, and which one that is of how many.

    Raises:
        InvalidArgument: the number is none.
    """
    text = request.query_params.get("page", "1")
    if not text.isascii() or not text.isdecimal() or not 1 <= int(text[:9]) < 10**9:
        raise InvalidArgument("page", text[:20], "a number from 1 on")
    last = max(1, -(-len(rows) // PAGE_SIZE))
    number = min(int(text[:9]), last)
    shown = rows[(number - 1) * PAGE_SIZE : number * PAGE_SIZE]
    return shown, {"number": number, "last": last, "total": len(rows)}


class Order(NamedTuple):
    """By which key the rows of a list are sorted, and whether the largest come first."""

    sort: str
    desc: bool

    def sorted(self, rows: Iterable[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
        """Return rows in this order; those whose value is unknown come last, whichever way."""
        rows = list(rows)
        known = [row for row in rows if row[self.sort] is not None]
        known.sort(key=lambda row: row[self.sort], reverse=self.desc)
        return known + [row for row in rows if row[self.sort] is None]

    def query(self) -> dict[str, object]:
        """Return what a link to a list in this order has."""
        return {"sort": self.sort, "desc": int(self.desc) or None}


def order_of(request: Request, keys: Sequence[str]) -> Order:
    """Return the order that is asked for; without any it is that of the first key.

    Raises:
        InvalidArgument: `sort` is none of the keys, or `desc` is not 0 or 1.
    """
    sort, desc = request.query_params.get("sort", keys[0]), request.query_params.get("desc", "0")
    if sort not in keys:
        raise InvalidArgument("sort", sort[:40], "one of " + ", ".join(keys))
    if desc not in ("0", "1"):
        raise InvalidArgument("desc", desc[:20], "0 or 1")
    return Order(sort, desc == "1")


def _plain(value: Any) -> Any:
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    if isinstance(value, (frozenset, set)):
        return sorted(value)
    if hasattr(value, "_asdict"):
        return value._asdict()
    if isinstance(value, tuple):
        return list(value)
    raise TypeError(f"{type(value).__name__} cannot be shown")
