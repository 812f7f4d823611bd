"""`orbitmq health`, asked of a cluster of this test's own: the session's one has seen what other tests broke."""


def test_a_healthy_name_server_ends_with_0_and_its_figures(orbitmq, rocketmq):
    result = orbitmq("health", "-n", rocketmq.name_servers)
    assert (result.code, result.err) == (0, "")
    header = "NAME_SERVER HEALTHY BROKERS TOPICS CONNECTIONS MEMORY_MB LAG_MS"
    assert result.out.splitlines()[0].split() == header.split()
    ((address, healthy, brokers, topics, connections, memory_mb, _lag_ms),) = result.rows
    assert (address, healthy, brokers) == (rocketmq.name_servers, "yes", "1")
    assert int(topics) > 0
    assert int(connections) > 0
    assert 1 < int(memory_mb) < 10_000
    assert orbitmq("health", "-n", address, "-o", "json").json[0]["nameServer"] == address


def test_one_that_is_not_healthy_ends_with_1_and_its_reason(orbitmq, rocketmq):
    result = orbitmq("health", "-n", f"{rocketmq.name_servers};127.0.0.1:1")
    assert result.code == 1
    assert [row[:2] for row in result.rows] == [[rocketmq.name_servers, "yes"], ["127.0.0.1:1", "no"]]
    assert "127.0.0.1:1: Unreachable: cannot connect to 127.0.0.1:1" in result.err


def test_nobody_there_ends_with_3(orbitmq):
    result = orbitmq("health", "-n", "127.0.0.1:1;127.0.0.1:2", "-o", "json")
    assert result.code == 3
    assert [found["reachable"] for found in result.json] == [False, False]


def test_alerts_and_warnings_are_told_in_words(orbitmq, rocketmq_session, monkeypatch):
    async def ask(pool, address, *, timeout_ms):
        alerts = [{"rule": "TooFew", "reason": "brokers are gone"}]
        return {"healthy": False, "alerts": alerts, "warnings": ["the clock jumped"], "memory": 5 * 2**20}

    monkeypatch.setattr("orbitmq.admin.monitoring.ask_health", ask)
    result = orbitmq("health")
    address = rocketmq_session.name_servers
    assert result.code == 1
    assert result.err == f"{address}: TooFew: brokers are gone\n{address}: the clock jumped\n"
    assert result.rows == [[address, "no", "-", "-", "-", "5", "-"]]
