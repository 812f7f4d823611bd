"""Templates of timers: what is put together is what the slow path makes, and nothing else is."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.broker.fast_path.special_templates import KeyedTemplates, TimerTemplate, timer_templates
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.broker.timers.times import TimerRules, asks_for_time, due_step_ms, step_in_time_ms, wait_form
from orbitmq.errors import OrbitError
from orbitmq.model.message import Host
from orbitmq.store import Draft
from orbitmq.store.dispatch import tag_code_of

RULES = TimerRules(is_enabled=True, delay_s_max=1_000, precision_ms=1_000, slot_count_max=10)
STORED = StoredProperties("c", region_id="r", trace_on=True)
NOW = 1_700_000_000_123
TIMER = b"TIMER_DELAY_MS\x012000\x02UNIQ_KEY\x01%s\x02WAIT\x01true\x02TAGS\x01a\x02"


def made(draft: Draft, now_ms: int = NOW) -> Draft | None:
    """Return what the slow path makes of a timer."""
    try:
        properties = STORED.parse(draft.properties)
        due_ms = due_step_ms(properties, RULES, now_ms) if asks_for_time(properties) else None
        return draft if due_ms is None else wait_form(draft, properties, due_ms)
    except OrbitError:
        return None


def sent(properties: bytes, sys_flag: int = 3, queue_id: int = 3) -> Draft:
    return Draft("t", queue_id, b"body", properties, 7, sys_flag, NOW, Host("10.0.0.1", 9))


def taught(draft: Draft, key: bytes) -> KeyedTemplates[TimerTemplate]:
    """Templates that know a text; one is made when it comes for the second time."""
    templates = timer_templates(made)
    templates.find(draft, key)
    templates.find(draft, key)
    return templates


def check(templates: KeyedTemplates[TimerTemplate], draft: Draft, key: bytes, now_ms: int) -> bool:
    """Compare what a template makes of a message with what the slow path does; say whether there is one."""
    template = templates.find(draft, key)
    due_ms = None if template is None else step_in_time_ms(template.asked, RULES, now_ms)
    if template is None or due_ms is None:
        return False
    waiting = made(draft, now_ms)
    assert waiting is not None
    assert template.fill(draft, key, due_ms) == waiting._replace(tag_code=tag_code_of("", waiting.properties, 0))
    return True


@each_case(b"DELAY_SEC\x012", b"DELAY_MS\x012000", b"DELIVER_MS\x011700000009999")
def test_the_next_timer_of_a_text_is_what_the_slow_path_makes_of_it(asked: bytes) -> None:
    properties = TIMER.replace(b"DELAY_MS\x012000", asked)
    templates = taught(sent(properties % b"AA01"), b"AA01")
    for now_ms in (NOW, NOW + 1, NOW + 876, NOW + 877, NOW + 878):
        assert check(templates, sent(properties % b"BB22"), b"BB22", now_ms)


def test_a_time_that_is_over_or_too_far_away_is_left_to_the_slow_path() -> None:
    properties = TIMER.replace(b"DELAY_MS\x012000", b"DELIVER_MS\x011700000009999")
    templates = taught(sent(properties % b"AA01"), b"AA01")
    for now_ms, is_in_time in (
        (1700000009998, True),
        (1700000009999, False),
        (1699999009999, True),
        (1699999009998, False),
    ):
        assert check(templates, sent(properties % b"BB22"), b"BB22", now_ms) is is_in_time
    template = templates.find(sent(properties % b"BB22"), b"BB22")
    assert template is not None
    assert step_in_time_ms(template.asked, RULES._replace(is_enabled=False), NOW) is None


@each_case(
    TIMER.replace(b"TIMER_DELAY_MS", b"A") % b"AA01",
    TIMER.replace(b"2000", b"x") % b"AA01",
    TIMER.replace(b"2000", b"AA01") % b"AA01",
    TIMER % b"AA01" + b"TIMER_DEL_UNIQKEY\x01t+K\x02",
    TIMER % b"AA01" + b"INNER_MULTI_DISPATCH\x01%LMQ%a\x02",
    TIMER % b"AA01" + b"TIMER_OUT_MS\x015000\x02",
)
def test_what_is_no_plain_timer_has_no_template(properties: bytes) -> None:
    assert taught(sent(properties), b"AA01").find(sent(properties), b"AA01") is None


def test_a_name_of_the_step_inside_a_value_is_not_taken_for_it() -> None:
    properties = TIMER + b"A\x01TIMER_OUT_MS\x017\x02"
    templates = taught(sent(properties % b"AA01"), b"AA01")
    assert check(templates, sent(properties % b"BB22"), b"BB22", NOW)


NAMES = st.sampled_from(
    [
        "TIMER_DELAY_SEC",
        "TIMER_DELIVER_MS",
        "UNIQ_KEY",
        "TAGS",
        "REAL_TOPIC",
        "REAL_QID",
        "TIMER_OUT_MS",
        "CLUSTER",
        "A",
    ]
)
VALUES = st.sampled_from(["3", "1700000009999", "a", "AA01", "x AA01", "", "0", "t", "r"])


@given(st.lists(st.tuples(NAMES, VALUES), max_size=6), st.sampled_from([b"AA01", b"BB22", b"2000", b"a", b"r", b"t"]))
def test_whatever_is_filled_in_is_what_the_slow_path_makes(others: list[tuple[str, str]], key: bytes) -> None:
    rest = b"".join(b"%s\x01%s\x02" % (name.encode(), value.encode()) for name, value in others)
    for text in (TIMER + rest.replace(b"%", b"%%"), rest.replace(b"%", b"%%") + TIMER):
        for taught_key in (b"AA01", key):
            templates = taught(sent(text % taught_key), taught_key)
            check(templates, sent(text % key), key, NOW + 5_000)
