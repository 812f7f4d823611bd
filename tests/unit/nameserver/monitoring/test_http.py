"""Claims about the pages of the HTTP port."""

from __future__ import annotations

from ..talk import run


def test_a_bad_number_in_a_query_is_refused():
    async def scenario(talk):
        return await talk.get("/routes/history?count=1e9")

    assert run(scenario) == (400, "count: '1e9' is not allowed, expected a number from 0 to 1000\n")


def test_a_name_server_that_waits_for_its_brokers_is_not_ready():
    async def scenario(talk):
        return await talk.get("/readyz")

    assert run(scenario, need_wait_for_service=True)[0] == 503


def test_without_a_port_there_is_no_http():
    async def scenario(talk):
        return talk.name_server.metrics_address

    assert run(scenario, metrics_port=-1) is None


def test_history_may_be_asked_for_since_any_time_that_a_double_holds():
    async def scenario(talk):
        return [await talk.get(f"/routes/history?since={since}") for since in (2**53, 2**53 + 1)]

    (found, body), (refused, words) = run(scenario)
    assert (found, body) == (200, "[]")
    assert (refused, words) == (400, f"since: '{2**53 + 1}' is not allowed, expected a number from 0 to {2**53}\n")
