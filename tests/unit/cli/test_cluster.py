"""`orbitmq cluster`."""


def test_every_broker_is_shown_with_what_it_does(orbitmq, rocketmq_session):
    (row,) = orbitmq("cluster", "-o", "json").json
    assert (row["cluster"], row["broker"], row["id"]) == ("DefaultCluster", "broker-a", 0)
    assert row["address"] == rocketmq_session.brokers["broker-a"]
    assert row["version"].startswith("V")
    assert row["messages_today"] >= 0
    assert orbitmq("cluster").rows[0][:3] == ["DefaultCluster", "broker-a", "0"]


def test_a_broker_that_does_not_answer_is_shown_all_the_same(orbitmq, monkeypatch):
    from orbitmq.admin import AdminClient
    from orbitmq.errors import RequestTimeout

    async def fail(self, address):
        raise RequestTimeout(f"{address} did not answer")

    monkeypatch.setattr(AdminClient, "broker_runtime_info", fail)
    result = orbitmq("cluster", "-o", "json")
    assert result.code == 0
    assert "did not answer" in result.json[0]["problem"]
    assert "broker-a: " in result.err
    assert result.err.count("did not answer") == 1


def test_what_a_broker_warns_of_is_said(orbitmq, monkeypatch):
    from orbitmq.admin import AdminClient

    async def warn(self, address):
        return {"warnings": "the door is open"}

    monkeypatch.setattr(AdminClient, "broker_runtime_info", warn)
    result = orbitmq("cluster")
    assert result.code == 0
    assert result.err == "broker-a: the door is open\n"
