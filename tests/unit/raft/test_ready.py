"""The order in which a driver has to do what a Ready asks for."""

from dataclasses import fields

from orbitmq.raft import Ready


def test_the_fields_stand_in_the_order_of_the_drivers_work():
    names = [field.name for field in fields(Ready)]
    assert names == ["hard_state", "snapshot", "entries", "must_sync", "messages", "committed", "reads"]
