"""The rules of each command, with the codes and sentences that Java's brokers and administrators know."""

from itertools import product

from cases import each_case
from orbitmq.codes import ResponseCode
from orbitmq.controller import decisions
from orbitmq.controller.commands import AlterSyncSet, ApplyBrokerId, CleanBrokers, ElectMaster, RegisterBroker
from orbitmq.controller.decisions import decide
from orbitmq.controller.values import REPLICAS_MAX, LiveMembers, Standing
from unit.controller.groups import group, living

LED = group(master=1, master_epoch=4, sync_set=[1, 2], sync_set_epoch=6)


def on(before, command):
    return decide({before.name: before} if before is not None else {}, command)


def apply_id(broker_id, *, cluster="c", code="x:1;5"):
    return ApplyBrokerId(cluster=cluster, name="orders", broker_id=broker_id, address="x:1", check_code=code)


def elect(alive=(), **values):
    return ElectMaster(name="orders", living=living(*alive), now_ms=99, **values)


def alter(sync_set, alive=(1, 2, 3), **values):
    known = {"master": 1, "master_epoch": 4, "sync_set_epoch": 6, **values}
    return AlterSyncSet(name="orders", sync_set=frozenset(sync_set), living=living(*alive), **known)


def clean(*ids, alive=(), **values):
    wanted = frozenset(ids) if ids else None
    return CleanBrokers(name="orders", broker_ids=wanted, living=living(*alive), now_ms=99, **values)


# Ids.


def test_the_first_member_makes_its_group():
    found = on(None, apply_id(1)).group
    assert (found.cluster, found.next_id, found.address_of(1)) == ("c", 2, "x:1")
    assert (found.master, found.master_epoch, found.sync_set) == (None, 0, frozenset())


@each_case(0, 2, 7)
def test_a_group_begins_with_the_id_one(broker_id):
    assert on(None, apply_id(broker_id)).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID


def test_an_id_is_given_once_but_its_owner_may_ask_again():
    first = on(None, apply_id(1)).group
    again, stranger = on(first, apply_id(1)), on(first, apply_id(1, code="y:1;6"))
    assert (again.code, again.is_change, again.group) == (ResponseCode.SUCCESS, False, first)
    assert stranger.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert stranger.remark == "Fail to apply brokerId: 1 in broker-set: orders"


def test_an_id_that_was_cleaned_away_is_not_given_again():
    left = on(group([1, 2, 3]), clean(3)).group
    assert on(left, apply_id(3)).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert on(left, apply_id(4)).group.next_id == 5


def test_a_group_that_was_cleaned_away_goes_on_counting_ids_and_epochs():
    gone = on(LED, clean(is_forced=True)).group
    assert not gone.replicas
    assert on(gone, apply_id(1)).code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    again = on(gone, apply_id(4, cluster="other")).group
    assert (again.cluster, again.next_id, again.master_epoch) == ("other", 5, 5)
    led = on(again, elect([4], asker=4)).group
    assert (led.master, led.master_epoch, led.sync_set) == (4, 6, {4})


def test_a_broker_of_another_cluster_does_not_join():
    refused = on(group([1]), apply_id(2, cluster="other"))
    assert refused.code == ResponseCode.CONTROLLER_BROKER_ID_INVALID
    assert "cluster c" in refused.remark


def test_groups_and_members_have_a_number(monkeypatch):
    monkeypatch.setattr(decisions, "GROUPS_MAX", 1)
    assert decide({"other": group([1])}, apply_id(1)).code == ResponseCode.CONTROLLER_INVALID_REQUEST
    assert on(group(range(1, REPLICAS_MAX + 1)), apply_id(65)).code == ResponseCode.CONTROLLER_INVALID_REQUEST


# Registrations.


def test_a_member_tells_its_new_address():
    outcome = on(LED, RegisterBroker(name="orders", broker_id=2, address="new:1"))
    assert outcome.is_change
    assert outcome.group.address_of(2) == "new:1"
    assert outcome.group.replicas[2].check_code == LED.replicas[2].check_code
    assert not on(outcome.group, RegisterBroker(name="orders", broker_id=2, address="new:1")).is_change


@each_case(None, group([1]))
def test_only_members_register(before):
    outcome = on(before, RegisterBroker(name="orders", broker_id=2, address="new:1"))
    assert outcome.code == ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED
    assert not outcome.is_change


# Elections; who is chosen is in test_elections.


def test_the_first_that_asks_leads():
    outcome = on(group([1, 2]), elect(asker=2))
    after = outcome.group
    assert (outcome.code, after.master, after.master_epoch) == (0, 2, 1)
    assert (after.sync_set, after.sync_set_epoch, after.elected_at_ms) == ({2}, 1, 99)


def test_the_second_that_asks_is_told_who_leads():
    led = on(group([1, 2]), elect(asker=2)).group
    outcome = on(led, elect([1, 2], asker=1))
    assert (outcome.code, outcome.group) == (ResponseCode.CONTROLLER_MASTER_STILL_EXIST, led)
    assert outcome.remark == "The old master 2 is still alive, not need to elect new master for broker orders"


def test_a_new_master_begins_an_epoch_with_itself_alone_in_the_set():
    after = on(LED, elect([2])).group
    assert (after.master, after.master_epoch, after.sync_set, after.sync_set_epoch) == (2, 5, {2}, 7)


def test_without_a_candidate_the_set_stays_so_that_a_member_may_return():
    outcome = on(LED, elect([3]))
    after = outcome.group
    assert outcome.code == ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE
    assert (after.master, after.master_epoch, after.sync_set, after.sync_set_epoch) == (None, 5, {1, 2}, 6)
    assert on(after, elect([2, 3])).group.master == 2


def test_without_a_master_and_a_candidate_no_epoch_is_used_up():
    refused = on(LED, elect()).group
    again = on(refused, elect())
    assert (again.code, again.is_change) == (ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, False)


def test_a_group_that_never_had_a_master_waits_for_a_broker_to_ask():
    outcome = on(group([1, 2]), elect([1, 2]))
    assert (outcome.code, outcome.is_change) == (ResponseCode.CONTROLLER_MASTER_NOT_AVAILABLE, False)
    assert on(group([1, 2]), elect([1, 2], asker=1)).group.master == 1


@each_case({"asker": 3}, {"designated": 3})
def test_a_refused_request_changes_nothing(wish):
    outcome = on(LED, elect([3], **wish))
    assert (outcome.code, outcome.is_change) == (ResponseCode.CONTROLLER_ELECT_MASTER_FAILED, False)


def test_an_administrator_may_choose_within_the_set():
    assert on(LED, elect([1, 2, 3], designated=2)).group.master == 2
    assert on(LED, elect([1, 2, 3], designated=1)).code == ResponseCode.CONTROLLER_MASTER_STILL_EXIST


def test_unclean_elections_are_an_explicit_wish():
    assert on(LED, elect([3], is_unclean=True)).group.master == 3


@each_case(*product([group([1, 2]), LED], [{"asker": 9}, {"designated": 9}]))
def test_a_stranger_is_not_elected(before, wish):
    outcome = on(before, elect([9], **wish))
    assert (outcome.code, outcome.is_change) == (ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, False)


def test_no_master_is_elected_in_an_unknown_group():
    outcome = on(None, elect([1], asker=1))
    assert (outcome.code, outcome.group) == (ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED, None)


# Sync sets.


def test_the_master_alters_the_set():
    after = on(LED, alter([1, 2, 3])).group
    assert (after.sync_set, after.sync_set_epoch, after.master_epoch) == ({1, 2, 3}, 7, 4)


@each_case(
    (alter([1, 2]), 2013, "The newSyncStateSet is equal with oldSyncStateSet, no needed to update syncStateSet"),
    (alter([1, 3], master=2), 2002, "current leader is:{1}, not {2}"),
    (alter([1, 3], master_epoch=3), 2000, "current master epoch is:{4}, not {3}"),
    (alter([1, 3], sync_set_epoch=5), 2001, "current syncStateSet epoch is:{6}, not {5}"),
    (alter([1, 7]), 2003, "replicas {7} don't exist"),
    (alter([1, 3], alive=[1, 2]), 2006, "replicas {3} don't alive"),
    (alter([2, 3]), 2013, "newSyncStateSet don't contains origin leader {1}"),
)
def test_a_set_that_cannot_be_is_refused_as_java_does(command, code, remark):
    outcome = on(LED, command)
    assert (outcome.code, outcome.is_change) == (code, False)
    assert outcome.remark.endswith(remark)


def test_an_old_masters_set_is_refused_without_a_master():
    assert on(on(LED, elect()).group, alter([1, 3])).code == ResponseCode.CONTROLLER_INVALID_MASTER


def test_the_set_of_an_unknown_group_is_refused():
    assert on(None, alter([1])).code == ResponseCode.CONTROLLER_ALTER_SYNC_STATE_SET_FAILED


# Cleaning.


def test_a_group_with_a_master_is_not_cleaned_away_unless_forced():
    refused = on(LED, clean())
    assert (refused.code, refused.is_change) == (ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA, False)
    assert refused.remark == "Broker orders is still alive, clean up failure"
    assert not on(LED, clean(is_forced=True)).group.replicas
    assert not on(on(LED, elect()).group, clean()).group.replicas


def test_a_living_member_is_not_cleaned_away_unless_forced():
    refused = on(LED, clean(3, alive=[3]))
    assert refused.code == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert refused.remark == "Broker [orders,  3] is still alive, clean up failure"
    assert sorted(on(LED, clean(3, alive=[3], is_forced=True)).group.replicas) == [1, 2]


def test_cleaning_the_master_away_leaves_no_master():
    after = on(LED, clean(1)).group
    assert (after.master, after.master_epoch, after.sync_set, after.sync_set_epoch) == (None, 5, {2}, 7)


def test_when_the_last_of_the_set_is_cleaned_away_the_others_do_not_lead_by_themselves():
    after = on(LED, clean(1, 2)).group
    assert (sorted(after.replicas), after.sync_set, after.was_led) == ([3], frozenset(), True)
    assert on(after, elect([3], asker=3)).code == ResponseCode.CONTROLLER_ELECT_MASTER_FAILED
    assert on(after, elect([3], asker=3, is_unclean=True)).group.master == 3


def test_cleaning_ids_that_are_none_changes_nothing():
    outcome = on(LED, clean(9))
    assert (outcome.code, outcome.is_change) == (ResponseCode.SUCCESS, False)


def test_an_unknown_group_is_not_cleaned():
    outcome = on(None, clean())
    assert outcome.code == ResponseCode.CONTROLLER_INVALID_CLEAN_BROKER_METADATA
    assert outcome.remark == "Broker orders is not existed,clean broker data failure."


def incomplete(**standings):
    """Living members whose machines stopped, as m2=(epoch, max_offset)."""
    return LiveMembers(
        {int(key[1:]): Standing(epoch, end, is_complete=False) for key, (epoch, end) in standings.items()}
    )


def elected(living, *, asker=None, designated=None, is_late=False, **state):
    command = ElectMaster(name="orders", asker=asker, designated=designated, is_late=is_late, living=living, now_ms=7)
    return decide({"orders": group(**state)}, command)


def test_while_all_that_are_here_may_lack_something_the_others_are_waited_for():
    state = {"master": 1, "sync_set": {1, 2, 3}}
    two = incomplete(m2=(3, 50), m3=(3, 70))
    assert elected(two, **state).group.master is None
    assert elected(two, **state).group.sync_set == {1, 2, 3}
    assert elected(two, is_late=True, **state).group.master == 3
    assert elected(incomplete(m1=(3, 60), m2=(3, 50), m3=(3, 70)), asker=1, **state).group.master == 3
    assert elected(two, designated=2, **state).group.master == 2


def test_a_member_that_went_on_leads_before_longer_logs_that_may_lack_something():
    one_went_on = LiveMembers({2: Standing(1, 10, is_complete=True), 3: Standing(3, 70, is_complete=False)})
    assert elected(one_went_on, master=1, sync_set={1, 2, 3}).group.master == 2


def test_a_master_that_may_lack_something_leads_on_only_in_another_epoch():
    state = {"master": 1, "master_epoch": 4, "sync_set": {1, 2}}
    alone = elected(incomplete(m1=(4, 60)), asker=1, **state)
    assert (alone.code, alone.group.master, alone.group.master_epoch) == (2012, 1, 4)
    late = elected(incomplete(m1=(4, 60)), asker=1, is_late=True, **state)
    assert (late.code, late.group.master, late.group.master_epoch) == (0, 1, 5)
    complete = LiveMembers({1: Standing(4, 60, is_complete=True)})
    assert elected(complete, asker=1, **state).code == 2011
    # Nothing but its own question takes the lead from a master that lives.
    assert elected(incomplete(m1=(4, 60), m2=(4, 90)), **state).code == 2011


def test_the_sync_set_stays_for_a_master_that_makes_it_smaller_itself():
    says = LiveMembers({2: Standing(is_complete=True)})
    assert elected(says, master=1, sync_set={1, 2, 3}).group.sync_set == {1, 2, 3}
    java = LiveMembers({2: Standing()})
    assert elected(java, master=1, sync_set={1, 2, 3}).group.sync_set == {2}
