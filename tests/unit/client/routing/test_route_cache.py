from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.client.routing import route_cache
from orbitmq.client.routing.route_cache import RouteCache, address_of, is_same_route
from orbitmq.model.route import BrokerData, MessageQueue, TopicRoute
from unit.client.routing.support import broker, queue_data, route


def test_a_route_is_kept_with_its_brokers_and_who_told_it():
    cache = RouteCache()
    assert cache.learn("t", route(queue_data("a")), "ns-1")
    assert cache.routes == {"t": route(queue_data("a"))}
    assert cache.brokers == {"a": broker("a")}
    assert cache.teacher("a") == "ns-1"
    assert cache.teacher("b") is None


def test_a_route_that_says_the_same_changes_nothing():
    cache = RouteCache()
    cache.learn("t", route(queue_data("a")), "ns-1")
    assert not cache.learn("t", route(queue_data("a")), "ns-2")
    assert cache.teacher("a") == "ns-1"


def test_the_latest_route_tells_a_brokers_address():
    cache = RouteCache()
    moved = broker("a", {0: "elsewhere:1"})
    cache.learn("t", route(queue_data("a")), "ns-1")
    cache.learn("u", route(queue_data("a"), brokers=(moved,)), "ns-2")
    assert cache.brokers["a"] == moved
    cache.learn("t", route(queue_data("a", read=3)), "ns-3")
    assert cache.brokers["a"] == broker("a")
    assert cache.teacher("a") == "ns-3"


def test_a_forgotten_topics_brokers_stay_until_another_route_changes():
    cache = RouteCache()
    cache.learn("t", route(queue_data("a")), "ns-1")
    cache.forget("t")
    cache.forget("t")
    assert cache.routes == {}
    assert cache.brokers == {"a": broker("a")}
    cache.learn("u", route(queue_data("b")), "ns-1")
    assert cache.brokers == {"b": broker("b")}


def test_the_order_of_lists_makes_no_other_route():
    one = route(queue_data("a"), queue_data("b"))
    other = TopicRoute(queues=one.queues[::-1], brokers=one.brokers[::-1])
    assert is_same_route(one, one)
    assert is_same_route(one, other)


@each_case(
    route(queue_data("a")),
    route(queue_data("a"), queue_data("b", perm=4)),
    route(queue_data("a"), queue_data("b"), order_topic_conf="a:1"),
    route(queue_data("a"), queue_data("b"), brokers=(broker("a"), broker("b", {0: "other:1"}))),
    route(queue_data("a"), queue_data("b"), filter_servers={"a:10911": ("f:1",)}),
    None,
)
def test_every_other_difference_makes_another_route(changed):
    one = route(queue_data("a"), queue_data("b"))
    assert not is_same_route(one, changed)
    assert not is_same_route(changed, one)


def test_the_master_answers_or_else_the_smallest_slave():
    members = broker("a", {2: "s2", 1: "s1"})
    assert address_of(members) == "s1"
    assert address_of(members, 2) == "s2"
    assert address_of(members, only_this=True) is None
    assert address_of(BrokerData(cluster="c", broker_name="a", addresses={})) is None


def static(name, epoch):
    mapping = {"bname": name, "currIdMap": {"0": 0}, "epoch": epoch, "scope": "__global__", "totalQueues": 1}
    return route(queue_data("a"), queue_data("b"), queue_mappings={name: mapping})


def test_a_logical_queue_has_the_leader_that_the_latest_route_tells():
    cache = RouteCache()
    queue = MessageQueue("t", "__syslo__global__", 0)
    assert cache.learn("t", static("a", 1), "ns-1")
    assert cache.leaders == {queue: "a"}
    assert not cache.learn("t", static("a", 1), "ns-1")
    assert cache.learn("t", static("b", 2), "ns-1")
    assert cache.leaders == {queue: "b"}
    cache.learn("t", route(queue_data("a")), "ns-1")
    assert cache.leaders == {}


steps = st.lists(
    st.tuples(
        st.sampled_from("tuvw"),
        st.one_of(
            st.none(),
            st.dictionaries(st.sampled_from("abc"), st.sampled_from(["one:1", "two:2"]), min_size=1, max_size=3),
        ),
    ),
    max_size=20,
)


@given(steps)
def test_after_each_new_route_brokers_are_those_of_all_routes_the_latest_last(history):
    cache, routes = RouteCache(), {}
    for topic, addresses in history:
        if addresses is None:
            cache.forget(topic)
            routes.pop(topic, None)
            continue
        new = route(*map(queue_data, addresses), brokers=tuple(broker(name, {0: at}) for name, at in addresses.items()))
        if cache.learn(topic, new, "ns"):
            routes.pop(topic, None)
            routes[topic] = new
            assert cache.brokers == {one.broker_name: one for known in routes.values() for one in known.brokers}
        assert cache.routes == routes


def test_a_changed_route_costs_the_same_however_many_topics_are_known(monkeypatch):
    """Of 2,000 topics each change looked at all others: a broker that stopped stopped clients for seconds."""
    asked = []

    def leaders(topic, _route):
        asked.append(topic)
        return {}

    monkeypatch.setattr(route_cache, "leaders", leaders)
    cache = RouteCache()
    for read_count in (4, 5):
        for number in range(100):
            cache.learn(f"t{number}", route(queue_data("a", read=read_count)), "ns")
    assert len(asked) <= 2 * 200
