from random import Random

from orbitmq.client.routing.nameserver_list import NameServerList


def servers(*addresses, seed=1):
    return NameServerList(addresses, Random(seed))


def test_clients_begin_at_different_name_servers():
    firsts = {servers("a:1", "b:1", "c:1", seed=seed).addresses[0] for seed in range(30)}
    assert firsts == {"a:1", "b:1", "c:1"}


def test_a_client_stays_with_the_one_that_answers():
    found = servers("a:1", "b:1", "c:1")
    second = found.addresses[1]
    found.mark_answered(second)
    assert found.addresses[0] == second
    found.mark_answered(second)
    assert found.addresses[0] == second
    assert sorted(found.addresses) == ["a:1", "b:1", "c:1"]


def test_a_client_leaves_the_one_that_fails():
    found = servers("a:1", "b:1", "c:1")
    first, second, third = found.addresses
    found.mark_failed(first)
    assert found.addresses == [second, third, first]
    found.mark_failed(first)  # another request failed there, too: that is old news
    assert found.addresses == [second, third, first]


def test_a_new_list_keeps_the_place_of_those_that_stay():
    found = servers("a:1", "b:1")
    first, second = found.addresses
    assert found.configure([second, "c:1"]) == [first]
    assert found.addresses == [second, "c:1"]
    assert found.configured == (second, "c:1")


def test_a_name_stands_for_all_its_addresses_and_follows_them():
    found = servers("ns.example:9876", "10.0.0.9:1")
    assert found.names == ("ns.example:9876",)
    found.set_resolved("ns.example:9876", ["10.0.0.1:9876", "10.0.0.2:9876"])
    assert sorted(found.addresses) == ["10.0.0.1:9876", "10.0.0.2:9876", "10.0.0.9:1"]
    assert found.set_resolved("ns.example:9876", ["10.0.0.2:9876"]) == ["10.0.0.1:9876"]
    assert found.describe("10.0.0.2:9876") == "10.0.0.2:9876 (from ns.example:9876)"
    assert found.describe("10.0.0.9:1") == "10.0.0.9:1"


def test_a_name_service_that_is_down_takes_nothing_away():
    found = servers("ns.example:9876")
    found.set_resolved("ns.example:9876", ["10.0.0.1:9876"])
    assert found.set_resolved("ns.example:9876", []) == []
    assert found.set_resolved("other:1", ["10.0.0.7:1"]) == []
    assert found.addresses == ["10.0.0.1:9876"]


def test_what_a_name_meant_stays_while_the_name_stays():
    found = servers("ns.example:9876", "10.0.0.9:1")
    found.set_resolved("ns.example:9876", ["10.0.0.1:9876"])
    assert found.configure(["ns.example:9876"]) == ["10.0.0.9:1"]
    assert found.addresses == ["10.0.0.1:9876"]


def test_what_a_name_meant_is_forgotten_with_the_name():
    found = servers("ns.example:9876")
    found.set_resolved("ns.example:9876", ["10.0.0.1:9876"])
    assert found.configure(["10.0.0.5:1"]) == ["10.0.0.1:9876"]
    assert found.configure(["ns.example:9876"]) == ["10.0.0.5:1"]
    assert found.addresses == ["ns.example:9876"]
    found.mark_answered("10.0.0.5:1")
    assert found.addresses == ["ns.example:9876"]


def test_without_chance_the_order_is_that_of_the_list():
    found = NameServerList(["c:1", "a:1", "b:1"])
    assert found.addresses == ["c:1", "a:1", "b:1"]
    found.mark_failed("c:1")
    assert found.addresses == ["a:1", "b:1", "c:1"]
