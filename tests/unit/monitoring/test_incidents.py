"""Incidents in the history of a NameServer."""

from __future__ import annotations

import orjson

from cases import each_case
from orbitmq.monitoring.alerts import Alert
from orbitmq.monitoring.incidents import (
    BEGUN,
    OVER,
    ClusterSample,
    Incident,
    Notice,
    alert_in,
    decode_notice,
    find_incidents,
    find_notices,
    open_incidents,
)
from orbitmq.nameserver.monitoring.alerts import AlertRules, NameServerAlertRule, NameServerState
from orbitmq.nameserver.monitoring.route_history import LostBroker

MEMORY = Alert(NameServerAlertRule.MEMORY_HIGH, "85% of 100 bytes of memory are used")
NAME_SERVERS = frozenset({"n1:1", "n2:1"})


def gone(*brokers):
    """Return the alert as a NameServer gives it."""
    (alert,) = AlertRules().add(NameServerState(at_ms=0, route_queries=0, route_failures=0, lost=brokers))
    return alert


def broker(name, where="127.0.0.1:1 (connection closed)"):
    return LostBroker(name, f"{name} at {where}", 0)


B = broker("east/broker-b:0")
C = broker("east/broker-c:1", "[::1]:2 (lease expired)")


def look(**answers):
    return ClusterSample({f"{name}:1": alerts for name, alerts in answers.items()}, NAME_SERVERS)


def told(notices):
    return [(notice.state, notice.subject) for notice in notices]


class Watch:
    """A watch that looks and remembers."""

    def __init__(self):
        self.notices = []

    def sees(self, at_ms, **answers):
        found = find_notices(open_incidents(self.notices), look(**answers), at_ms)
        self.notices += found
        return told(found)


def test_lost_brokers_are_incidents_of_their_own_whatever_server_says_so():
    watch = Watch()
    assert watch.sees(1, n1=[gone(B)], n2=[]) == [(BEGUN, "east/broker-b:0")]
    assert watch.sees(2, n1=[gone(B)], n2=[gone(B, C)]) == [(BEGUN, "east/broker-c:1")]
    assert watch.sees(3, n1=[], n2=[gone(B, C)]) == []
    assert sorted(watch.sees(4, n1=[], n2=[])) == [(OVER, "east/broker-b:0"), (OVER, "east/broker-c:1")]
    assert watch.sees(5, n1=[gone(B)], n2=[]) == [(BEGUN, "east/broker-b:0")]


def test_each_of_many_lost_brokers_is_an_incident():
    names = [f"east/broker-{number}:0" for number in range(9)]
    found = find_incidents(look(n1=[gone(*map(broker, names))]))
    assert sorted(incident.subject for incident in found) == names


def test_an_alert_travels_with_its_subjects():
    for alert in (gone(B, C), MEMORY):
        assert alert_in(orjson.loads(orjson.dumps(alert.document()))) == alert


def test_a_brokers_name_may_read_like_a_sentence():
    name = "east: far, off/b at c (d):0"
    assert [key.subject for key in find_incidents(look(n1=[gone(broker(name))]))] == [name]


def test_a_nameserver_that_does_not_name_brokers_is_the_subject_itself():
    nameless = Alert(
        NameServerAlertRule.BROKER_COUNT_DROPPED, "gone without a good-bye: east/broker-b:0 at 127.0.0.1:1 (x)"
    )
    assert [key.subject for key in find_incidents(look(n1=[nameless]))] == ["n1:1"]


def test_only_a_nameserver_names_other_subjects_than_itself():
    alert = Alert(NameServerAlertRule.BROKER_COUNT_DROPPED, "x", ("east/broker-b:0",))
    assert [key.subject for key in find_incidents(look(n3=[alert]))] == ["n3:1"]


def test_a_rule_about_a_server_is_an_incident_of_that_server():
    found = find_incidents(look(n1=[MEMORY], n2=[MEMORY]))
    assert found == {Incident(MEMORY.rule, f"n{number}:1"): MEMORY.reason for number in (1, 2)}


def test_who_does_not_answer_ends_nothing():
    watch = Watch()
    watch.sees(1, n1=[gone(B), MEMORY], n2=[])
    assert watch.sees(2, n2=[]) == []
    assert watch.sees(3) == []
    assert sorted(watch.sees(4, n1=[], n2=[])) == [(OVER, "east/broker-b:0"), (OVER, "n1:1")]


def test_an_incident_keeps_the_time_at_which_it_began():
    watch = Watch()
    watch.sees(1, n1=[MEMORY], n2=[])
    watch.sees(9, n1=[], n2=[])
    assert [(notice.at_ms, notice.begun_ms) for notice in watch.notices] == [(1, 1), (9, 1)]


def test_a_clock_that_is_set_back_ends_an_incident_once():
    watch = Watch()
    assert watch.sees(9_000, n1=[MEMORY], n2=[]) == [(BEGUN, "n1:1")]
    assert watch.sees(1_000, n1=[], n2=[]) == [(OVER, "n1:1")]
    assert watch.sees(1_001, n1=[], n2=[]) == []
    assert watch.sees(5_000, n1=[MEMORY], n2=[]) == [(BEGUN, "n1:1")]


@each_case(
    {"state": "odd"}, {"rule": {}}, {"subject": []}, {"reason": 7}, {"at_ms": "1"}, {"at_ms": 1e300}, {"begun_ms": None}
)
def test_a_message_whose_fields_have_other_types_is_no_notice(change):
    assert decode_notice(orjson.dumps(NOTICE._asdict())) == NOTICE
    assert decode_notice(orjson.dumps(NOTICE._asdict() | change)) is None


def test_an_incident_that_was_told_twice_ends_once():
    begun = Notice(BEGUN, "r", "s", "", 1, 1)
    again, over = begun._replace(at_ms=2, begun_ms=2), begun._replace(state=OVER, at_ms=3)
    assert open_incidents([begun, again]) == open_incidents([begun, begun]) == {begun.incident: begun}
    assert open_incidents([begun, again, over]) == {}
    later = begun._replace(at_ms=4, begun_ms=4)
    assert open_incidents([begun, over, later]) == {later.incident: later}


@each_case((100, False), (101, True))
def test_the_boundary_of_failing_queries_is_the_servers(failures, holds):
    rules = AlertRules()
    rules.add(NameServerState(at_ms=0, route_queries=0, route_failures=0))
    alerts = rules.add(NameServerState(at_ms=60_000, route_queries=10_000, route_failures=failures))
    assert bool(find_incidents(look(n1=alerts))) is holds


@each_case((80, False), (81, True))
def test_the_boundary_of_memory_is_the_servers(memory, holds):
    alerts = AlertRules().add(
        NameServerState(at_ms=0, route_queries=0, route_failures=0, memory=memory, memory_limit=100)
    )
    assert bool(find_incidents(look(n1=alerts))) is holds


NOTICE = Notice(BEGUN, "r", "s", "", 1, 1)


def test_both_messages_of_an_incident_have_one_key_that_a_message_may_have():
    begun = NOTICE._replace(subject="a \x01b")
    assert begun.key == begun._replace(state=OVER, at_ms=2, reason="x").key == "r/a__b/1"


@each_case(b"", b"7", b"{}", b"[]", b'{"state":"begun","more":1}', b"\xff")
def test_a_message_that_is_no_notice_is_passed_over(body):
    assert decode_notice(body) is None
    assert decode_notice(orjson.dumps(NOTICE._asdict())) == NOTICE
