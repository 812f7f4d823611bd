from hypothesis import given
from hypothesis import strategies as st

from orbitmq.admin.route_comparison import RouteFacts, differences, snapshot_of
from orbitmq.model.route import BrokerData, ClusterInfo, QueueData, TopicRoute


def broker(name: str, **addresses: str) -> BrokerData:
    return BrokerData(cluster="c", broker_name=name, addresses={int(key[1:]): at for key, at in addresses.items()})


def queue(name: str, perm: int = 6) -> QueueData:
    return QueueData(broker_name=name, read_queue_count=4, write_queue_count=4, perm=perm)


def snapshot(brokers: list[BrokerData], **topics: list[QueueData]) -> RouteFacts:
    info = ClusterInfo(brokers={each.broker_name: each for each in brokers}, clusters={})
    return snapshot_of(info, {topic: TopicRoute(queues=tuple(queues)) for topic, queues in topics.items()})


def test_equal_routes_have_equal_digests_whatever_their_order():
    one = snapshot([broker("a", _0="h:1", _1="h:2"), broker("b", _0="h:3")], t=[queue("a"), queue("b")], u=[queue("a")])
    two = snapshot([broker("b", _0="h:3"), broker("a", _1="h:2", _0="h:1")], u=[queue("a")], t=[queue("b"), queue("a")])
    assert one.digest == two.digest
    assert list(differences({"x": one, "y": two})) == []


def test_a_difference_names_the_subject_and_what_each_side_says():
    one = snapshot([broker("a", _0="h:1")], t=[queue("a")])
    two = snapshot([broker("a", _0="h:9")], t=[queue("a", perm=4)], u=[queue("a")])
    found = {difference.subject: difference.facts for difference in differences({"x": one, "y": two})}
    assert list(found) == ["broker a", "topic t at a", "topic u at a"]
    assert found["broker a"] == {"x": '["c",{"0":"h:1"}]', "y": '["c",{"0":"h:9"}]'}
    assert '"perm":4' in (found["topic t at a"]["y"] or "")
    assert found["topic u at a"]["x"] is None
    assert one.digest != two.digest


facts = st.dictionaries(st.text("abc", max_size=3), st.text("xyz", max_size=2), max_size=4)


@given(facts, facts)
def test_digests_are_equal_exactly_when_nothing_differs(one, two):
    snapshots = {"x": RouteFacts(one), "y": RouteFacts(two)}
    is_equal = not list(differences(snapshots))
    assert is_equal == (one == two)
    assert (RouteFacts(one).digest == RouteFacts(two).digest) == is_equal
