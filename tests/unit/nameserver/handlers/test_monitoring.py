"""Claims about health and history, asked for over the wire."""

from __future__ import annotations

import orjson
import pytest

from orbitmq.errors import RemoteRefused
from orbitmq.wire import headers

from ..talk import BODY, BROKER, talking

pytestmark = pytest.mark.real


async def test_history_and_difference_are_answered():
    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        await talk.ask(headers.DeleteTopicInNameServer(topic="t"))
        events = orjson.loads(await talk.ask(headers.GetRouteHistory(topic="t")))
        page = orjson.loads((await talk.get("/routes/history?topic=t"))[1])
        difference = orjson.loads(await talk.ask(headers.GetRouteDifference(at_ms=0)))
    assert [event["cause"] for event in events] == ["topic deletion", "registration"]
    assert events[0]["remote"].startswith("127.0.0.1:")
    assert page == events
    assert [topic["topic"] for topic in difference["topics"]] == ["u"]


@pytest.mark.parametrize("count_max", [0, 1001, -1])
async def test_a_history_of_too_many_events_is_refused(count_max):
    async with talking() as talk:
        with pytest.raises(RemoteRefused, match="maxNum"):
            await talk.ask(headers.GetRouteHistory(count_max=count_max))


@pytest.mark.parametrize("count_max", [1, 1000])
async def test_a_history_of_one_to_a_thousand_events_is_answered(count_max):
    async with talking() as talk:
        await talk.ask(BROKER, BODY)
        assert len(orjson.loads(await talk.ask(headers.GetRouteHistory(count_max=count_max)))) == min(count_max, 2)
