"""`orbitmq bench`: what is sent and read, percentiles, failures."""

from array import array

from orbitmq.cli.bench import percentiles


def test_sends_are_counted_and_timed(orbitmq, rocketmq):
    (row,) = orbitmq("bench", "produce", "load", "-c", 300, "-s", 100, "-o", "json", "-n", rocketmq.name_servers).json
    assert (row["messages"], row["failed"]) == (300, 0)
    assert 0 < row["p50_ms"] <= row["p99_ms"] <= row["max_ms"]
    assert row["per_second"] > 0
    assert orbitmq("consume", "load", "-n", rocketmq.name_servers).out.count("\n") == 300
    (read,) = orbitmq("bench", "consume", "load", "-c", 300, "-o", "json", "-n", rocketmq.name_servers).json
    assert read["messages"] == 300
    few = orbitmq("bench", "consume", "load", "-c", 301, "-n", rocketmq.name_servers)
    assert (few.code, "300 of 301 messages were there" in few.err) == (1, True)


def test_a_rate_is_kept(orbitmq, rocketmq):
    (row,) = orbitmq(
        "bench", "produce", "load", "-c", 50, "--rate", 100, "-o", "json", "-n", rocketmq.name_servers
    ).json
    assert row["seconds"] >= 0.49


def test_a_message_is_timed_through_the_broker_and_back(orbitmq, rocketmq):
    words = ("-c", 20, "--rate", 200, "-s", 64, "-o", "json", "-n", rocketmq.name_servers)
    (row,) = orbitmq("bench", "latency", "echo", *words).json
    assert row["messages"] == 20
    assert 0 < row["p50_ms"] <= row["max_ms"]


def test_failed_sends_are_counted_and_end_with_1(orbitmq, rocketmq):
    assert orbitmq("topic", "create", "closed", "--permission", "r", "-n", rocketmq.name_servers).code == 0
    result = orbitmq("bench", "produce", "closed", "-c", 3, "--in-flight", 1, "-o", "json", "-n", rocketmq.name_servers)
    assert (result.code, result.json[0]["failed"], result.json[0]["p50_ms"]) == (1, 3, None)
    assert result.err.count("orbitmq:") == 1


def test_percentiles_are_values_that_occurred():
    found = percentiles(array("d", [float(number) for number in range(1, 1001)]))
    assert found == {"p50_ms": 501.0, "p90_ms": 901.0, "p99_ms": 991.0, "p99_9_ms": 1000.0, "max_ms": 1000.0}
    assert set(percentiles(array("d")).values()) == {None}
