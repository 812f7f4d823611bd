"""The choice of a master: every combination of living members, sync set, role and wish."""

from itertools import chain, combinations, product

import pytest

from orbitmq.controller.replicas.elections import elect
from unit.controller.replicas.groups import group, living

IDS = (1, 2, 3)
SUBSETS = [frozenset(subset) for subset in chain.from_iterable(combinations(IDS, size) for size in range(4))]
STANDINGS = {"m1": (1, 100), "m2": (2, 50), "m3": (2, 70)}
BEST_FIRST = (3, 2, 1)


def expected(alive, sync_set, master, designated, is_unclean):
    """The rule in one sentence each, apart from the code: who may lead, who is kept, who is chosen."""
    for eligible in (alive & sync_set, alive if is_unclean else frozenset()):
        if designated is not None:
            if designated in eligible:
                return designated
        elif master in eligible:
            return master
        elif eligible:
            return next(one for one in BEST_FIRST if one in eligible)
    return None


@pytest.mark.parametrize("is_unclean", [False, True])
@pytest.mark.parametrize("designated", [None, *IDS])
@pytest.mark.parametrize("master", [None, *IDS])
def test_apache_rocketmq_8380_9717_10416_10875_alive_in_set_and_role_decide_together(master, designated, is_unclean):
    for alive, sync_set in product(SUBSETS, SUBSETS):
        orders = group(IDS, master=master, sync_set=sync_set)
        heard = living(**{key: value for key, value in STANDINGS.items() if int(key[1:]) in alive})
        elected = elect(orders, heard, designated=designated, is_unclean=is_unclean)
        assert elected == expected(alive, sync_set, master, designated, is_unclean), (alive, sync_set)


def test_nobody_outside_the_sync_set_leads_unless_that_is_wanted():
    orders = group(master=1, sync_set=[1, 2])
    assert elect(orders, living(3)) is None
    assert elect(orders, living(3), is_unclean=True) == 3
    assert elect(orders, living(2, 3), is_unclean=True) == 2


def test_the_newer_epoch_wins_before_the_longer_log():
    assert elect(group(sync_set=IDS), living(m1=(7, 10), m2=(6, 1000))) == 1


def test_logs_that_differ_by_three_gibibytes_are_compared_whole():
    assert elect(group(sync_set=IDS), living(m1=(1, 3 << 30), m2=(1, 0))) == 1
    assert elect(group(sync_set=IDS), living(m1=(1, 0), m2=(1, 4 << 30))) == 2


def test_of_equal_logs_the_lower_priority_wins_and_then_the_lower_id():
    assert elect(group(sync_set=IDS), living(m1=(1, 5, 10), m2=(1, 5, 9))) == 2
    assert elect(group(sync_set=IDS), living(m3=(1, 5, 9), m2=(1, 5, 9))) == 2


def test_a_master_that_a_new_controller_has_not_heard_yet_is_kept():
    orders = group(master=1, sync_set=[1, 2])
    assert elect(orders, living(2, unheard=[1])) == 1
    assert elect(orders, living(2, unheard=[1]), designated=2) == 2
    assert elect(orders, living(2)) == 2


def test_a_slave_that_was_not_heard_yet_is_not_elected():
    assert elect(group(master=1, sync_set=[1, 2]), living(unheard=[2])) is None
