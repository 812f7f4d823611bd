"""Which brokers a command is about."""

import pytest


@pytest.mark.parametrize(
    ("words", "named"),
    [
        (("--address", "nonsense"), "nonsense"),
        (("--address", "a:1;b:2"), "--address"),
        (("--address", "127.0.0.1:1", "--name", "broker-a"), "--address"),
        (("--address", "127.0.0.1:1", "--cluster", "DefaultCluster"), "--address"),
        (("--name", "broker-z"), "expected one of broker-a"),
        (("--cluster", "Elsewhere"), "expected one of DefaultCluster"),
    ],
)
def test_a_choice_that_is_none_is_a_wrong_argument(orbitmq, words, named):
    wrong = orbitmq("broker", "status", *words)
    assert (wrong.code, wrong.out) == (2, "")
    assert named in wrong.err


def test_a_cluster_is_its_masters(orbitmq):
    rows = orbitmq("broker", "status", "brokerVersion", "--cluster", "DefaultCluster").rows
    assert [row[:2] for row in rows] == [["broker-a", "brokerVersion"]]


def test_no_server_at_an_address_ends_with_3(orbitmq):
    result = orbitmq("broker", "status", "--address", "127.0.0.1:1")
    assert (result.code, result.err.startswith("orbitmq: "), "127.0.0.1:1" in result.err) == (3, True, True)
