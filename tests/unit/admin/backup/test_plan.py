import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.admin.backup.plan import (
    Action,
    OffsetStep,
    QueueProgress,
    RestoreOptions,
    Target,
    make_plan,
    map_brokers,
    opened,
)
from orbitmq.admin.backup.tables import NO_ACCESS, AccessTables, BrokerTables, GroupTopic
from orbitmq.errors import InvalidArgument
from orbitmq.model.access import User
from orbitmq.model.route import MessageQueue
from orbitmq.model.topic import TopicConfig
from orbitmq.wire.bodies.groups import GroupConfig
from unit.admin.backup.support import manifest, queue_file

QUEUE = MessageQueue("orders", "b", 0)
NOTHING = BrokerTables({}, {}, {})
ORDERS = TopicConfig(topic="orders", read_queue_count=2, write_queue_count=2)
SAVED = BrokerTables(
    {"orders": ORDERS, "steps": TopicConfig(topic="steps")},
    {"billing": GroupConfig(group="billing"), "idle": GroupConfig(group="idle")},
    {GroupTopic("orders", "billing"): {0: 5, 1: 0}},
)


def plan(
    options=None,
    present=NOTHING,
    queues=None,
    resumed=None,
    online=(),
    saved=SAVED,
    whole=None,
    users=(),
    access=NO_ACCESS,
):
    return make_plan(
        whole or manifest(queue_file()),
        {"a": saved},
        {"a": AccessTables(tuple(users), ())},
        {"a": "b"},
        {"b": Target(present, queues or {}, frozenset(online), access)},
        options or RestoreOptions(),
        {"b"},
        resumed or {},
    )


def changes(found, kind):
    return [(step.name, step.action) for step in found.tables if step.kind == kind]


def with_offsets(offsets):
    return BrokerTables(
        {"orders": ORDERS}, {"billing": GroupConfig(group="billing")}, {GroupTopic("orders", "billing"): offsets}
    )


def test_a_fresh_cluster_gets_everything():
    found = plan()
    assert changes(found, "topic") == [("orders", Action.CREATE), ("steps", Action.CREATE)]
    assert changes(found, "group") == [("billing", Action.CREATE), ("idle", Action.CREATE)]
    assert {step.broker for step in found.tables} == {"b"}
    assert [(step.queue, step.place) for step in found.queues] == [(QUEUE, QueueProgress())]
    other = QUEUE._replace(queue_id=1)
    assert found.offsets == (
        OffsetStep(QUEUE, "billing", 5, QueueProgress()),
        OffsetStep(other, "billing", 0, QueueProgress()),
    )
    assert found.offsets[0].place is found.queues[0].place
    assert (found.refusals, found.remarks) == ((), ())


def test_chosen_topics_bring_the_groups_that_read_them():
    found = plan(RestoreOptions(patterns=("orders",)))
    assert [step.name for step in found.tables] == ["billing", "orders"]
    assert plan(RestoreOptions(patterns=("steps",))).queues == ()


@each_case((False, Action.LEAVE), (True, Action.OVERWRITE))
def test_other_settings_are_left_and_named_unless_they_are_to_be_overwritten(overwrite, action):
    present = BrokerTables(
        {"orders": TopicConfig(topic="orders", read_queue_count=9, write_queue_count=9)},
        {"billing": GroupConfig(group="billing", retry_times_max=1)},
        {},
    )
    found = plan(RestoreOptions(overwrite=overwrite), present)
    details = {step.name: step.detail for step in found.tables if step.action is action}
    assert details["orders"] == "readQueueNums is 9, not 2; writeQueueNums is 9, not 2"
    assert details["billing"] == "retryMaxTimes is 1, not 16"


def test_the_same_settings_are_no_change():
    assert {step.action for step in plan(present=SAVED).tables} == {Action.SAME}


def test_a_queue_with_messages_is_refused_unless_they_go_behind():
    queues = {QUEUE: QueueProgress(7, was_empty=False)}
    assert "has messages already" in plan(present=with_offsets({}), queues=queues).refusals[0]
    found = plan(RestoreOptions(append=True), with_offsets({}), queues)
    assert (found.refusals, found.queues[0].place.base) == ((), 7)


def test_a_queue_whose_messages_are_gone_is_filled_from_its_end_on():
    found = plan(present=with_offsets({}), queues={QUEUE: QueueProgress(7)})
    assert (found.refusals, found.queues[0].place.base) == ((), 7)


def test_a_resumed_restore_goes_on_from_the_state_before_it():
    queues = {QUEUE: QueueProgress(7, was_empty=False)}
    found = plan(present=with_offsets({}), queues=queues, resumed={QUEUE: QueueProgress(2)})
    assert (found.refusals, found.queues[0].place) == ((), QueueProgress(2))


def test_a_topic_with_fewer_queues_is_refused():
    present = BrokerTables({"orders": TopicConfig(topic="orders", read_queue_count=1, write_queue_count=1)}, {}, {})
    whole = manifest(queue_file(queue_id=1))
    assert "has 1 queues there (--overwrite" in plan(present=present, whole=whole).refusals[0]
    assert plan(RestoreOptions(overwrite=True), present, whole=whole).refusals == ()


def test_a_group_with_messages_of_its_own_to_read_stays_where_it_is():
    queues = {QUEUE: QueueProgress(7, was_empty=False)}
    found = plan(RestoreOptions(append=True), with_offsets({0: 3}), queues)
    assert [step.queue.queue_id for step in found.offsets] == [1]
    assert found.remarks == ("the group billing stays where it is in queue 0 of orders on b",)


def test_a_group_that_never_read_a_filled_queue_begins_at_its_restored_messages():
    queues = {QUEUE: QueueProgress(7, was_empty=False)}
    found = plan(RestoreOptions(append=True), with_offsets({}), queues)
    assert found.offsets[0] == OffsetStep(QUEUE, "billing", 5, QueueProgress(7, was_empty=False))


def test_a_group_with_clients_keeps_its_offsets():
    found = plan(online=["billing"])
    assert found.offsets == ()
    assert "clients online on b" in found.remarks[0]


def test_without_messages_no_offset_is_set():
    for found in (plan(RestoreOptions(tables_only=True)), plan(whole=manifest(has_messages=False))):
        assert (found.queues, found.offsets) == ((), ())
        assert "no messages are restored" in found.remarks[0]


def test_brokers_are_those_of_the_same_names_or_of_the_map():
    assert map_brokers(["a", "b"], ["a", "c"], {"b": "c"}) == {"a": "a", "b": "c"}


@each_case(
    ({}, "--map-broker b=OTHER"),
    ({"b": "a"}, "one broker for each"),
    ({"x": "a", "b": "c"}, "a broker of the backup"),
    ({"b": "x"}, "a master of the cluster"),
)
def test_a_broker_without_a_place_is_named(given, reason):
    with pytest.raises(InvalidArgument, match=reason):
        map_brokers(["a", "b"], ["a", "c"], given)


def test_users_are_made_and_others_of_their_names_stay():
    users = User("shop", "secret"), User("mail", "secret")
    found = plan(users=users, access=AccessTables((User("mail", "another"),), ()))
    assert changes(found, "user") == [("shop", Action.CREATE), ("mail", Action.LEAVE)]


def test_a_user_without_password_is_refused():
    assert "no password of the user shop on b" in plan(users=[User("shop", "")]).refusals[0]


def test_offsets_of_a_group_without_settings_are_left_out_and_named():
    found = plan(saved=SAVED._replace(groups={}))
    assert found.offsets == ()
    assert found.remarks == ("the group billing has no settings, as one that was deleted: its offsets are left out",)


def test_a_closed_topic_is_open_as_long_as_messages_come():
    closed = TopicConfig(topic="orders", perm=4)
    assert opened(closed) == TopicConfig(topic="orders", perm=6)


def test_a_restore_says_what_the_backup_lacks():
    assert plan(whole=manifest(problems=("broker b",))).remarks == ("not in the backup: broker b",)


def retries(group):
    topic = f"%RETRY%{group}"
    saved = BrokerTables({topic: TopicConfig(topic=topic)}, {"billing": GroupConfig(group="billing")}, {})
    return {"whole": manifest(queue_file(topic=topic)), "saved": saved}


def test_retries_of_a_group_that_is_not_there_are_left_out_and_named():
    for group in ("gone", "billing_orders"):  # deleted; POP's
        found = plan(**retries(group))
        assert found.queues == ()
        assert found.remarks == (f"the messages in %RETRY%{group} are left out on b: it has no group {group}",)


def test_retries_bring_their_group():
    found = plan(RestoreOptions(patterns=("%RETRY%*",)), **retries("billing"))
    assert (len(found.queues), changes(found, "group")) == (1, [("billing", Action.CREATE)])


def test_names_that_the_target_does_not_take_are_refused():
    names = ["b", "orders", long := f"%DLQ%{'g' * 130}"]
    saved = BrokerTables({name: TopicConfig(topic=name) for name in names}, {}, {})
    assert plan(saved=saved).refusals == (
        f"the topic {long} has 135 characters, brokers make one of 127 at most: choose others with --topic, as '[!%]*'",
        "the topic b is kept by the target for itself: choose others with --topic",
    )
    assert plan(RestoreOptions(patterns=("o*",)), saved=saved).refusals == ()


def test_a_target_that_lost_what_was_restored_is_refused():
    resumed = {QUEUE: QueueProgress(2, next_new=5, sent=3)}
    found = plan(present=with_offsets({}), queues={QUEUE: QueueProgress(4)}, resumed=resumed)
    assert "queue 0 of orders on b ends at 4, and was restored up to 5: another cluster" in found.refusals[0]


gaps = st.lists(st.tuples(st.integers(1, 3), st.integers(1, 3)), max_size=30)


@given(st.integers(0, 50), st.integers(0, 50), gaps, st.integers(0, 200))
def test_a_group_goes_on_at_the_first_message_that_it_had_not_read(begin, base, steps, committed):
    place, moved = QueueProgress(base, waiting=[committed]), {}
    old, new = begin, base
    for old_step, new_step in steps:
        place.add(old, new)
        moved[old] = new
        old, new = old + old_step, new + new_step
    unread = [new for old, new in moved.items() if old >= committed]
    assert place.find(committed) == (unread[0] if unread else max(moved.values(), default=base - 1) + 1)
    assert place.sent == len(moved)
