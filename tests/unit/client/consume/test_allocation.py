from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.client.consume.allocation import allocate, allocate_average, assignment_change
from orbitmq.model.route import MessageQueue


def queues(count):
    return [MessageQueue("t", "a", number) for number in range(count)]


@each_case(
    (8, 3, [[0, 1, 2], [3, 4, 5], [6, 7]]),
    (2, 3, [[0], [1], []]),
    (3, 3, [[0], [1], [2]]),
    (6, 2, [[0, 1, 2], [3, 4, 5]]),
    (0, 2, [[], []]),
)
def test_shares_are_those_of_javas_average_strategy(queue_count, member_count, shares):
    members = [f"m{number}" for number in range(member_count)]
    found = [[q.queue_id for q in allocate_average(queues(queue_count), members, m)] for m in members]
    assert found == shares


@given(st.integers(0, 40), st.integers(1, 40))
def test_every_queue_has_exactly_one_reader_and_shares_differ_by_one(queue_count, member_count):
    members = [f"m{number:02}" for number in range(member_count)]
    shares = [allocate_average(queues(queue_count), members, member) for member in members]
    assert [queue for share in shares for queue in share] == queues(queue_count)
    assert max(map(len, shares)) - min(map(len, shares)) <= 1


def test_the_order_in_which_lists_arrive_does_not_matter():
    assert allocate(queues(4)[::-1], ["b", "a", "b"], "a") == queues(2)


def test_a_member_that_the_group_does_not_know_yet_gets_no_answer():
    assert allocate(queues(4), ["b"], "a") is None


def test_a_change_names_what_goes_and_what_comes():
    first, second, third = queues(3)
    assert assignment_change({first, second}, [third, second]) == ([first], [third])
    assert assignment_change({first}, [first]) == ([], [])
