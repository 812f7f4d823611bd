"""Dead letters: the groups that have some, what they are, sending them again, and a file of them."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from dataclasses import asdict
from typing import Any

import orjson
from starlette.requests import Request

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.dead_letters import DeadLetter, DeadLetterSelection
from orbitmq.dashboard.answers import Column, Page, Section, link, missing
from orbitmq.dashboard.changes import Change, Done, Question
from orbitmq.dashboard.forms import Form
from orbitmq.dashboard.reading import summary
from orbitmq.errors import OrbitError, PartlyDone

SHOWN_MAX = 200
"""Dead letters of a group that are looked at for one page."""


async def dead_letter_groups(_request: Request, clients: ClusterClients) -> Page:
    """List the groups that have dead letters."""
    async with clients.dead_letters() as dead_letters:
        rows = [asdict(group) for group in await dead_letters.groups()]
        note = missing(await dead_letters.missing_masters())
    rows.sort(key=lambda row: (-(row["count"] or 0), row["group"]))
    columns = (
        Column("group", "Group", to=("dead-letters", "{group}")),
        Column("count", "Dead letters", "number"),
        Column("newest_at_ms", "Newest (UTC)", "time"),
        Column("problem", "Problem", "long"),
    )
    empty = "No group has dead letters."
    section = Section(name="groups", title="Groups", columns=columns, rows=rows, empty=empty, note=note)
    return Page("tables.html", "Dead letters", {}, sections=[section])


async def dead_letters(request: Request, clients: ClusterClients) -> Page:
    """Show a group's dead letters, those of one text in body, keys or topic, from an offset on."""
    group, wanted = request.path_params["group"], request.query_params.get("q", "").strip()
    form = Form(dict(request.query_params))
    start = form.number("from", 0, 2**63 - 1, 0)
    rows, read = [], 0
    async with clients.dead_letters() as client:
        selection = DeadLetterSelection(offset_min=start, count_max=SHOWN_MAX)
        async with aclosing(client.read(group, selection)) as letters:
            async for letter in letters:
                read += 1
                row = letter_row(letter)
                if wanted.lower() in f"{row['origin_topic']} {' '.join(row['keys'])} {row['body']}".lower():
                    rows.append(row)
    values = {"group": group, "q": wanted, "start": start, "read": read, "is_cut": read == SHOWN_MAX, "letters": rows}
    return Page("dead_letters.html", f"Dead letters of {group}", values)


def letter_row(letter: DeadLetter) -> dict[str, Any]:
    """Return what a table shows of a dead letter."""
    return {
        **summary(letter.message),
        "place": str(letter.place),
        "origin_topic": letter.origin_topic,
        "origin_id": letter.origin_id,
    }


async def export(clients: ClusterClients, group: str) -> AsyncGenerator[bytes, None]:
    """Yield all dead letters of a group, one JSON object a line, bodies as text."""
    async with clients.dead_letters() as client, aclosing(client.read(group)) as letters:
        async for letter in letters:
            message = letter.message
            document = {
                "place": str(letter.place),
                "originTopic": letter.origin_topic,
                "originId": letter.origin_id,
                "storedAtMs": message.stored_at_ms,
                "properties": dict(message.properties),
                "body": message.body.decode("utf-8", "backslashreplace"),
            }
            yield orjson.dumps(document, option=orjson.OPT_APPEND_NEWLINE)


async def _ask_resend(form: Form, clients: ClusterClients) -> Question:
    group, letter_id = form.text("group"), form.text("id", "")
    if letter_id:
        text = f"Send the dead letter {letter_id} of {group} again? Every group that reads its topic gets it."
        return Question(text=text, button="Send again")
    async with clients.dead_letters() as client, aclosing(client.read(group, only_unsent=True)) as letters:
        count = 0
        topics: dict[str, int] = {}
        async for letter in letters:
            count += 1
            topic = letter.origin_topic or "unknown"
            topics[topic] = topics.get(topic, 0) + 1
    return Question(
        text=f"Send {count:,} dead letters of {group} to their topics? One that was sent again by itself is sent once more.",
        button="Send all again",
        columns=("Topic", "Dead letters"),
        rows=sorted(topics.items()),
    )


async def _resend(form: Form, clients: ClusterClients) -> Done:
    group, letter_id = form.text("group"), form.text("id", "")
    selection = DeadLetterSelection(ids=frozenset([letter_id]) if letter_id else frozenset())
    sent_ids: list[str] = []
    try:
        async with (
            clients.dead_letters() as client,
            aclosing(client.resend(group, selection, only_existing=True)) as letters,
        ):
            async for _letter, sent in letters:
                sent_ids.append(sent.message_id)
    except OrbitError as error:
        if not sent_ids:
            raise
        text = f"{len(sent_ids)} dead letters of {group} are sent again, others are not: {error}"
        raise PartlyDone(text, sent_ids[:100]) from error
    return Done(
        text=f"{len(sent_ids)} dead letters of {group} are sent again",
        location=link("dead-letters", group),
        after={"count": len(sent_ids), "ids": sent_ids[:100]},
    )


CHANGES = (
    Change(
        path="/dead-letters/{group}/resend",
        action="resend_dead_letters",
        ask=_ask_resend,
        make=_resend,
    ),
)
