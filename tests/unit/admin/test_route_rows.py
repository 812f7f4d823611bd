from cases import each_case
from orbitmq.admin.route_rows import difference_rows, event_row

QUEUES = {"readQueueNums": 4, "writeQueueNums": 8, "perm": 6}


def event(*topics, count=None, **fields):
    return {
        "at": 1_700_000_000_123,
        "kind": "topics changed",
        "brokerName": "broker-a",
        "brokerId": 0,
        "address": "a:1",
        "topics": topics,
        "topicCount": len(topics) if count is None else count,
        "cause": "registration",
        "remote": "r:1",
        **fields,
    }


def change(name, *, before=None, after=None):
    return {"topic": name, "before": before, "after": after}


def test_an_event_is_a_row_with_its_name_server():
    assert event_row("ns:1", event()) == {
        "name_server": "ns:1",
        "at": 1_700_000_000_123,
        "kind": "topics changed",
        "broker": "broker-a:0",
        "address": "a:1",
        "topics": None,
        "cause": "registration",
        "remote": "r:1",
    }


def test_an_event_of_a_whole_broker_group_names_no_member():
    assert event_row("ns:1", event(brokerId=None))["broker"] == "broker-a"


ADDED, GONE, CHANGED = change("a", after=QUEUES), change("g", before=QUEUES), change("c", before=QUEUES, after=QUEUES)


@each_case(
    ([ADDED], 1, "+a"),
    ([ADDED, GONE, CHANGED], 3, "+a, -g, ~c"),
    ([ADDED, GONE, CHANGED, ADDED], 4, "+a, -g, ~c, 1 more"),
    ([ADDED], 9, "+a, 8 more"),
    ([], 7, "7"),
    ([], 0, None),
)
def test_three_topics_are_named_and_the_others_counted(topics, count, text):
    assert event_row("ns:1", event(*topics, count=count))["topics"] == text


def test_what_is_different_is_shown_brokers_first():
    found = {
        "brokers": [{"brokerName": "broker-a", "brokerId": 1, "before": "a:1", "after": None}],
        "topics": [{"topic": "orders", "brokerName": "broker-a", "before": None, "after": QUEUES}],
    }
    assert difference_rows("ns:1", found) == [
        {"name_server": "ns:1", "what": "broker broker-a:1", "broker": "broker-a", "before": "a:1", "after": None},
        {
            "name_server": "ns:1",
            "what": "topic orders",
            "broker": "broker-a",
            "before": None,
            "after": "read 4 write 8 perm 6",
        },
    ]
