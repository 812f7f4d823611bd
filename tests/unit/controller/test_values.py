"""Broker groups as values."""

from unit.controller.groups import group


def test_a_group_knows_the_addresses_of_its_members():
    orders = group([1, 2])
    assert orders.address_of(2) == "10.0.0.2:10911"
    assert orders.address_of(3) is None
    assert orders.address_of(None) is None
