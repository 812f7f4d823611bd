"""Claims about the topics that are asked for and have no route."""

from orbitmq.nameserver.monitoring.unknown_topics import ILLEGAL, TOPICS_MAX, UnknownTopics


def test_the_most_wanted_come_first_with_who_asked_last():
    missing = UnknownTopics()
    for number, topic in enumerate(["a", "b", "a"]):
        missing.note(topic, number, f"h:{number}")
    assert missing.most_wanted(0, 10) == [("a", 2, 2, "h:2"), ("b", 1, 1, "h:1")]
    assert missing.most_wanted(2, 10) == [("a", 2, 2, "h:2")]
    assert missing.most_wanted(0, 1) == [("a", 2, 2, "h:2")]


def test_a_hundred_are_remembered_and_the_one_asked_for_longest_ago_goes():
    missing = UnknownTopics()
    for number in range(TOPICS_MAX):
        missing.note(f"t{number}", number, "h:1")
    missing.note("t0", TOPICS_MAX, "h:1")
    missing.note("one-more", TOPICS_MAX, "h:1")
    found = {topic for topic, *_ in missing.most_wanted(0, 1_000)}
    assert len(found) == TOPICS_MAX
    assert "t0" in found
    assert "t1" not in found


def test_names_that_no_topic_may_have_are_one():
    missing = UnknownTopics()
    for topic in ("\x1b[31m", "a b", "", "x" * 300, "../etc"):
        missing.note(topic, 0, "h:1")
    assert missing.most_wanted(0, 10) == [(ILLEGAL, 5, 0, "h:1")]
