"""Addresses that are announced and reached elsewhere."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.errors import ConfigError, InvalidArgument
from orbitmq.net.address_map import VARIABLE, parse_map, reachable
from orbitmq.net.blocking import BlockingConnection
from orbitmq.net.pool import ConnectionPool
from orbitmq.testing import LocalCluster
from orbitmq.wire.headers import GetClusterInfo

ANNOUNCED = "broker-in-a-container.invalid:10911"


def test_an_address_is_its_own_where_nothing_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    assert reachable("a:1") == ("a", 1)
    monkeypatch.setenv(VARIABLE, " b:2 = 127.0.0.1:3 ; [::1]:4=c:5 ;")
    assert reachable("a:1") == ("a", 1)
    assert reachable("b:2") == ("127.0.0.1", 3)
    assert reachable("[::1]:4") == ("c", 5)


@each_case("a:1", "a=b", "a:1=b", "a=b:1", "=", "a:1=b:99999")
def test_a_map_that_is_none_is_refused_by_its_name(text: str) -> None:
    with pytest.raises(ConfigError, match=VARIABLE):
        parse_map(text)


def test_an_address_that_is_none_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(VARIABLE, raising=False)
    with pytest.raises(InvalidArgument):
        reachable("nowhere")


@pytest.mark.real
async def test_both_kinds_of_connections_go_where_an_address_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    async with LocalCluster() as cluster:
        monkeypatch.setenv(VARIABLE, f"{ANNOUNCED}={cluster.name_servers}")
        pool = ConnectionPool()
        try:
            assert (await pool.request(ANNOUNCED, GetClusterInfo())).code == 0
        finally:
            await pool.close()
        with BlockingConnection(ANNOUNCED) as connection:
            assert connection.address == ANNOUNCED
