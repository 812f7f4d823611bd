"""Checks of a request before its body is read, and forms that are read within limits.

Browsers say with `Sec-Fetch-Site`, or with `Origin`, which site has made them send a request. Programs send neither.
"""

from __future__ import annotations

import asyncio

from starlette.requests import Request

from orbitmq.dashboard.forms import Form, parse_form
from orbitmq.errors import InvalidArgument

FORM_SIZE_MAX = 64 * 1024
"""Bytes of a form."""
MESSAGE_FORM_SIZE_MAX = 4 * 1024 * 1024 + FORM_SIZE_MAX
"""Bytes of a form that holds a message's body."""
_parsing = asyncio.Semaphore(2)
"""Large forms that are parsed at the same time, each in a thread."""


def is_of_another_site(request: Request) -> bool:
    """Return True if a page of another site has made a browser send this."""
    site = request.headers.get("sec-fetch-site")
    if site is not None:
        return site not in ("same-origin", "none")
    origin = request.headers.get("origin")
    return origin is not None and origin.partition("://")[2] != request.headers.get("host", "")


def is_click(request: Request) -> bool:
    """Return True if a user has followed a link to a page; scripts, frames and images of other sites cannot send that."""
    found = request.headers
    return found.get("sec-fetch-dest") == "document" and found.get("sec-fetch-user") == "?1"


async def read_form(request: Request, size_max: int = FORM_SIZE_MAX) -> Form:
    """Read a form; one that says that it is too long is refused unread, and a large one is parsed in a thread.

    Raises:
        InvalidArgument: it is longer than `size_max` bytes, or not a form.
        ClientDisconnect: the client has gone.
    """
    told = request.headers.get("content-length", "0")
    _check_size(int(told) if told.isascii() and told.isdecimal() else 0, size_max)
    parts, size = [], 0
    async for part in request.stream():
        size += len(part)
        _check_size(size, size_max)
        parts.append(part)
    body = b"".join(parts)
    if size <= FORM_SIZE_MAX:
        return Form(parse_form(body))
    async with _parsing:
        return Form(await asyncio.to_thread(parse_form, body))


def _check_size(size: int, size_max: int) -> None:
    if size > size_max:
        raise InvalidArgument("form", f"{size} bytes", f"at most {size_max} bytes")
