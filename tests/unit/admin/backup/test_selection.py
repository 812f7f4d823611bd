import pytest

from orbitmq.admin.backup.selection import is_saved, is_selected


@pytest.mark.parametrize(
    ("topic", "patterns", "expected"),
    [
        ("orders", (), True),
        ("orders", ("orders",), True),
        ("orders-eu", ("orders*", "steps"), True),
        ("Orders", ("orders",), False),
        ("%RETRY%billing", ("orders*",), False),
    ],
)
def test_a_topic_is_selected_by_a_pattern(topic, patterns, expected):
    assert is_selected(topic, patterns) is expected


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        ("orders", True),
        ("%RETRY%billing", True),
        ("%DLQ%billing", True),
        ("TBW102", False),
        ("rmq_sys_wheel_timer", False),
        ("broker-a", False),
        ("../orders", False),
    ],
)
def test_topics_of_users_and_groups_are_saved(topic, expected):
    assert is_saved(topic, {"broker-a"}, ()) is expected
