from orbitmq.client.send.round_robin import RoundRobin
from orbitmq.model.route import MessageQueue


def queue(name, number):
    return MessageQueue("t", name, number)


def test_round_robin_visits_every_queue_in_turn():
    queues = [queue("a", 0), queue("a", 1), queue("b", 0)]
    turns = RoundRobin(4)
    assert [turns.choose(queues) for _ in range(4)] == [queues[1], queues[2], queues[0], queues[1]]


def test_round_robin_passes_avoided_brokers_and_goes_on_behind_them():
    queues = [queue("a", 0), queue("a", 1), queue("b", 0), queue("c", 0)]
    turns = RoundRobin(0)
    assert [turns.choose(queues, {"a"}) for _ in range(3)] == [queues[2], queues[3], queues[2]]


def test_round_robin_takes_any_queue_when_all_brokers_are_avoided():
    queues = [queue("a", 0), queue("b", 0)]
    assert RoundRobin(1).choose(queues, {"a", "b"}) == queues[1]
