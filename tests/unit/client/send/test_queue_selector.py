import pytest

from orbitmq.client.send.queue_selector import choose_by_key
from orbitmq.model.route import MessageQueue


def queue(name, number):
    return MessageQueue("t", name, number)


@pytest.mark.parametrize(("key", "index"), [("order-1", 0), ("hello", 2), ("", 0), ("polygenelubricants", 3)])
def test_a_key_chooses_the_queue_that_java_chooses(key, index):
    # Java: Math.abs(key.hashCode() % 5); "polygenelubricants" hashes to Integer.MIN_VALUE.
    assert choose_by_key([queue("a", number) for number in range(5)], key).queue_id == index
