"""`orbitmq broker status`."""


def test_every_value_that_a_broker_tells_is_shown(orbitmq, rocketmq_session):
    rows = {row[1]: row[2:] for row in orbitmq("broker", "status").rows}
    assert {"brokerVersionDesc", "putTps", "commitLogMaxOffset", "bootTimestamp"} <= rows.keys()
    (shown,) = orbitmq("broker", "status", "-o", "json").json
    assert (shown["broker"], shown["address"]) == ("broker-a", rocketmq_session.brokers["broker-a"])
    assert shown["values"].keys() == rows.keys()


def test_some_values_are_asked_for_by_their_names(orbitmq):
    assert [row[:2] for row in orbitmq("broker", "status", "runtime", "brokerVersion").rows] == [
        ["broker-a", "brokerVersion"],
        ["broker-a", "runtime"],
    ]
    missing = orbitmq("broker", "status", "brokerVersion", "putTpz")
    assert (missing.code, len(missing.rows)) == (1, 1)
    assert missing.err == "orbitmq: broker-a has no value putTpz\n"
