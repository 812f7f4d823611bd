"""Claims about the pages of the HTTP port."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import orjson
import pytest

from orbitmq.errors import InvalidArgument
from orbitmq.nameserver.monitoring.http import pages
from orbitmq.nameserver.monitoring.journal import Journal
from orbitmq.nameserver.routing.events import Cause, Change, ChangeKind, Trigger

from ..talk import talking

pytestmark = pytest.mark.real

UNUSED: Any = SimpleNamespace(collect=None, health=None)


async def test_a_bad_number_in_a_query_is_refused():
    async with talking() as talk:
        assert await talk.get("/routes/history?count=1e9") == (
            400,
            "count: '1e9' is not allowed, expected a number from 0 to 1000\n",
        )


async def test_a_name_server_that_waits_for_its_brokers_is_not_ready():
    async with talking(need_wait_for_service=True) as talk:
        assert (await talk.get("/readyz"))[0] == 503


async def test_without_a_port_there_is_no_http():
    async with talking(metrics_port=-1) as talk:
        assert talk.name_server.metrics_address is None


async def test_history_may_be_asked_for_since_any_time_that_a_double_holds():
    async with talking() as talk:
        (found, body), (refused, words) = [
            await talk.get(f"/routes/history?since={since}") for since in (2**53, 2**53 + 1)
        ]
    assert (found, body) == (200, "[]")
    assert (refused, words) == (400, f"since: '{2**53 + 1}' is not allowed, expected a number from 0 to {2**53}\n")


def test_history_shows_two_hundred_events_since_ever_unless_asked_otherwise():
    journal = Journal(1_000)
    for _ in range(201):
        journal.add(
            Change(kind=ChangeKind.BROKER_LEFT, trigger=Trigger(Cause.REGISTRATION, 0), cluster="c", broker_name="a")
        )
    history = pages(UNUSED, UNUSED, journal)["/routes/history"]
    assert [len(orjson.loads(history(query).body)) for query in ({}, {"count": "201"}, {"since": "1"})] == [200, 201, 0]


@pytest.mark.parametrize("count", ["\u0663", "-1", "", "1001"])
def test_a_count_is_ascii_digits_up_to_a_thousand(count):
    history = pages(UNUSED, UNUSED, Journal(1))["/routes/history"]
    with pytest.raises(InvalidArgument, match="count"):
        history({"count": count})


@pytest.mark.parametrize("query", ["cnt=2", "cnt", "topic=a&since=0&limit=9"])
async def test_a_misspelt_parameter_is_refused_instead_of_left_alone(query):
    async with talking() as talk:
        status, words = await talk.get(f"/routes/history?{query}")
    name = query.split("&")[-1].split("=")[0]
    assert (status, words) == (
        400,
        f"query: {name!r} is not allowed, expected one of topic, broker, since, count\n",
    )
