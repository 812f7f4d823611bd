"""Each check of the doctor: silent where nothing is wrong, and what it says where something is."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import click
import typer.main
from hypothesis import given
from hypothesis import strategies as st

from cases import each_case
from orbitmq.admin.controller_facts import ControllerFacts
from orbitmq.broker.health.issues import BrokerAlertRule
from orbitmq.cli.health import documents_of, exit_code_for, unreachable
from orbitmq.cli.main import make_app
from orbitmq.dashboard.doctor import rows_of
from orbitmq.doctor.checks import CHECKS, examine
from orbitmq.doctor.issues import Issue, Severity, command, listed, worst_first
from orbitmq.doctor.snapshot import Snapshot
from orbitmq.model.group import MessageModel
from orbitmq.model.route import MessageQueue, QueueData, TopicRoute
from orbitmq.model.topic import TopicConfig
from orbitmq.monitoring.incidents import ClusterSample, alert_in, find_incidents
from orbitmq.nameserver.monitoring.alerts import NameServerAlertRule
from orbitmq.wire.bodies.consumer_info import ConsumeStatus, QueueInfo, RunningInfo
from orbitmq.wire.bodies.topics import QueueStats
from unit.doctor.sample import (
    GROUP,
    HOUR_MS,
    NAMES,
    NOW_MS,
    QUEUES,
    TOPIC,
    broker,
    client,
    group,
    name_server,
    route,
    sample,
)

ERROR, WARNING, INFO = Severity.ERROR, Severity.WARNING, Severity.INFO
PAGE = Path(__file__).parents[3] / "docs/reference/doctor.md"
DAY_MS = 24 * HOUR_MS


def with_broker(**changes: Any) -> Snapshot:
    """The sample, in which the broker a is otherwise."""
    return sample(brokers=(broker("a", **changes), *sample().brokers[1:]))


def controller(number: int, **changes: Any) -> ControllerFacts:
    """A controller that is well."""
    return replace(ControllerFacts(address=f"10.0.0.{number}:9878", health={"alerts": []}), **changes)


def with_runtime(**values: str) -> Snapshot:
    return with_broker(runtime=dict(broker("a").runtime) | values)


def with_config(**changes: Any) -> Snapshot:
    config = replace(broker("a").topics[TOPIC], **changes)
    return with_broker(topics={TOPIC: config})


def with_queues(changes: dict[MessageQueue, QueueStats]) -> Snapshot:
    return sample(queues=dict(sample().queues) | changes)


def behind(delay_ms: int, *clients: RunningInfo, count: int = 50) -> Snapshot:
    """The sample, whose group is behind in one queue."""
    found = {f"client-{number}": one for number, one in enumerate(clients)}
    committed = {GROUP: dict.fromkeys(QUEUES, 200) | {QUEUES[0]: 200 - count}}
    return sample(groups={GROUP: group(found, {QUEUES[0]: delay_ms})}, committed=committed)


def slow(**changes: Any) -> Snapshot:
    return behind(15 * 60_000, client(*QUEUES, **changes))


RETRY, DLQ = f"%RETRY%{GROUP}", f"%DLQ%{GROUP}"
CASES: list[tuple[str, Callable[[], Snapshot], Severity, str]] = [
    ("nameserver-unreachable", lambda: sample(name_servers=(name_server(problem="refused"),)), ERROR, "refused"),
    (
        "route-drift",
        lambda: sample(name_servers=(name_server(), name_server("ns2:9876", routes=type(name_server().routes)({})))),  # type: ignore[misc]
        ERROR,
        "2 NameServers disagree about 4 routes: broker a, broker b, topic orders at a and 1 more",
    ),
    (
        "two-addresses",
        lambda: sample(brokers=(*sample().brokers, broker("a", address="other:1"))),
        ERROR,
        "id 0 has the addresses host-a0:10911, other:1",
    ),
    (
        "two-addresses",
        lambda: sample(brokers=(*sample().brokers, broker("z", 1, address="host-a1:10911"), broker("z"))),
        ERROR,
        "registered as a (id 1), z (id 1)",
    ),
    (
        "broker-unreachable",
        lambda: with_broker(problem="no answer", address="172.17.0.2:10911"),
        ERROR,
        "it may be an address inside of its container",
    ),
    ("no-master", lambda: sample(brokers=sample().brokers[1:]), ERROR, "only 1: its queues take no messages"),
    (
        "no-master",
        lambda: sample(brokers=(), routes={}, queues={}, groups={}, committed={}),
        ERROR,
        "no broker is registered: nothing can be sent or read",
    ),
    (
        "controllers",
        lambda: sample(controllers=[controller(1), controller(2), controller(3, problem="refused")]),
        WARNING,
        "does not answer (refused): 2 of 3 are there, one more and no master can be elected; start it again",
    ),
    (
        "controllers",
        lambda: sample(controllers=[controller(1), controller(2, problem="refused")]),
        ERROR,
        "1 of 2 are there, no master can be elected before more are there",
    ),
    (
        "controllers",
        lambda: sample(controllers=[controller(1, health={"alerts": [{"rule": "no_master", "reason": "for a"}]})]),
        ERROR,
        "no_master: for a",
    ),
    (
        "own-alerts",
        lambda: with_broker(health={"alerts": [{"rule": "RocketmqBrokerDiskFull", "reason": "no room"}]}),
        ERROR,
        "DiskFull: no room",
    ),
    (
        "own-alerts",
        lambda: with_broker(health={"alerts": [{"rule": "MemberMissing", "reason": "3", "severity": "warning"}]}),
        WARNING,
        "MemberMissing: 3",
    ),
    ("own-alerts", lambda: with_broker(health={"alerts": [], "warnings": ["old"]}), INFO, "old"),
    ("clock-difference", lambda: with_broker(queried_at_ms=NOW_MS - 10_000), WARNING, "10 s ahead of the one here"),
    ("clock-difference", lambda: with_broker(queried_at_ms=NOW_MS + 90_000), ERROR, "90 s behind the one here"),
    (
        "future-messages",
        lambda: with_runtime(futureMessages=f"4096 {365 * DAY_MS}"),
        WARNING,
        "messages before 4096 of its commitlog have store times up to 8760.0 h in the future",
    ),
    (
        "future-messages",
        lambda: sample(queues={MessageQueue(TOPIC, "a", 0): QueueStats(0, 10, NOW_MS + DAY_MS)}),
        WARNING,
        "its newest message has a store time 24.0 h in the future",
    ),
    ("disk-full", lambda: with_runtime(commitLogDiskRatio="0.8"), WARNING, "80% of its disk"),
    ("disk-full", lambda: with_runtime(commitLogDiskRatio="0.95"), ERROR, "95% of its disk"),
    (
        "writes-refused",
        lambda: with_broker(settings={"brokerPermission": "4"}),
        INFO,
        "it refuses sends (brokerPermission=4)",
    ),
    (
        "writes-refused",
        lambda: replace(
            with_broker(settings={"brokerPermission": "4"}),
            routes={TOPIC: replace(route(), queues=tuple(replace(data, perm=4) for data in route().queues))},
        ),
        WARNING,
        "no other broker takes messages of orders",
    ),
    ("replica-behind", lambda: with_runtime(commitLogMaxOffset=str(1000 + 300 * 2**20)), WARNING, "300 MiB behind"),
    ("replica-behind", lambda: with_runtime(syncStateSet="0"), WARNING, "not in the sync set"),
    ("single-replica", lambda: sample(brokers=(broker("a"), *sample().brokers[2:])), INFO, "without a slave: a"),
    ("versions-differ", lambda: with_runtime(brokerVersionDesc="V4_9_7"), INFO, "V4_9_7: a; V5_3_3: a, b"),
    ("certificate-ends", lambda: with_broker(certificate_ends_ms=NOW_MS + 20 * DAY_MS), WARNING, "ends in 20.0 days"),
    ("certificate-ends", lambda: with_broker(certificate_ends_ms=NOW_MS - DAY_MS), ERROR, "ends in -1.0 days"),
    ("file-limit", lambda: with_broker(health={"alerts": [], "fileLimit": 1024}), INFO, "1024 files"),
    ("slow-writes", lambda: with_runtime(pageCacheLockTimeMills="1500"), WARNING, "1500 ms for the page cache"),
    ("slow-writes", lambda: with_runtime(putMessageDistributeTime="[1~2s]:9 [2~3s]:1 [10s~]:2"), WARNING, "3 sends"),
    (
        "slow-writes",
        lambda: with_runtime(sendThreadPoolQueueSize="90", sendThreadPoolQueueCapacity="100"),
        WARNING,
        "90 requests wait for its send threads",
    ),
    ("dispatch-behind", lambda: with_runtime(dispatchBehindBytes=str(100 * 2**20)), WARNING, "100 MiB of its log"),
    ("timers-off", lambda: with_broker(settings={"timerWheelEnable": "false"}), INFO, "timerWheelEnable is false"),
    ("not-told", lambda: with_broker(refusals={"settings": "no permission"}), INFO, "its settings: no permission"),
    ("not-told", lambda: sample(left_out=["20 of 30 groups"]), INFO, "20 of 30 groups"),
    ("settings-differ", lambda: with_config(perm=4), WARNING, "a r, b rw"),
    (
        "settings-differ",
        lambda: sample(
            brokers=[
                broker(name, topics={TOPIC: TopicConfig(topic=TOPIC, write_queue_count=2, perm=4)}) for name in NAMES
            ]
        ),
        INFO,
        "the write permission is off everywhere",
    ),
    ("unbalanced", lambda: with_config(write_queue_count=9), INFO, "a 9, b 2"),
    ("unbalanced", lambda: with_broker(topics={}), INFO, "on b alone, of 2 brokers"),
    ("hot-queue", lambda: with_queues({QUEUES[1]: QueueStats(100, 9_100)}), WARNING, "a queue 1 has 9,000 messages"),
    (
        "hidden-messages",
        lambda: with_config(read_queue_count=1),
        WARNING,
        "100 messages on a lie behind its 1 read queues",
    ),
    ("unread-topic", lambda: sample(committed={}, groups={}), INFO, "400 messages, and no group has read any"),
    ("order-without-config", lambda: with_config(order=True), INFO, "no order configuration"),
    (
        "kept-shorter",
        lambda: with_config(attributes={"reserve.time": "168"}),
        WARNING,
        "168 h, and the log of a keeps them for 72 h",
    ),
    ("unread-deleted", lambda: sample(committed={GROUP: {QUEUES[0]: 40}}), ERROR, "60 messages of orders were deleted"),
    ("unread-expires", lambda: behind(70 * HOUR_MS, client(*QUEUES)), WARNING, "goes in 2.0 h"),
    ("unread-expires", lambda: behind(73 * HOUR_MS, client(*QUEUES)), ERROR, "goes with the next deletion of files"),
    (
        "subscriptions-differ",
        lambda: sample(groups={GROUP: group({"one": client(*QUEUES), "two": client(tags="A || B")})}),
        ERROR,
        "one: orders *; two: orders A || B",
    ),
    (
        "queue-without-owner",
        lambda: sample(groups={GROUP: group({"one": client(*QUEUES[1:])})}),
        WARNING,
        "no member reads a queue 0 of orders",
    ),
    (
        "more-clients-than-queues",
        lambda: sample(groups={GROUP: group({f"c{number}": client(*QUEUES) for number in range(6)})}),
        INFO,
        "6 members share 4 queues: 2 have none",
    ),
    (
        "slow-group",
        slow,
        WARNING,
        "50 messages behind, the oldest 15 min old (orders a queue 0); only this queue is late",
    ),
    (
        "slow-group",
        lambda: slow(queues={queue: QueueInfo(cached_count=1_000) for queue in QUEUES}),
        WARNING,
        "flow control, the cache of a queue is full",
    ),
    (
        "slow-group",
        lambda: slow(statistics={TOPIC: ConsumeStatus(consume_ms=1_200, failed_rate=2, done_rate=1)}),
        WARNING,
        "handlers of client-0 take 1,200 ms a message; handlers of client-0 fail more often than they succeed",
    ),
    (
        "group-gone",
        lambda: behind(HOUR_MS),
        WARNING,
        "50 messages wait for it, and no member has registered; the oldest is 1.0 h",
    ),
    ("group-gone", lambda: behind(5_000), INFO, "50 messages wait for it"),
    (
        "dead-letters",
        lambda: with_queues({MessageQueue(DLQ, "a", 0): QueueStats(0, 7, NOW_MS - 7 * HOUR_MS)}),
        WARNING,
        "7 dead letters, the newest 7.0 h ago",
    ),
    (
        "retries-wait",
        lambda: replace(
            with_queues({MessageQueue(RETRY, "a", 0): QueueStats(0, 500)}),
            committed={GROUP: dict.fromkeys(QUEUES, 200) | {MessageQueue(RETRY, "a", 0): 100}},
        ),
        WARNING,
        "400 messages wait to be consumed again",
    ),
]


def found(snapshot: Snapshot, check: str) -> list[Issue]:
    return list(CHECKS[check](snapshot))


def test_a_healthy_cluster_has_no_issues() -> None:
    assert examine(sample()) == []


@each_case(*CASES)
def test_a_check_says_what_is_wrong(check: str, make: Callable[[], Snapshot], severity: Severity, text: str) -> None:
    issues = found(make(), check)
    assert [issue.severity for issue in issues if text in issue.text] == [severity], issues
    assert {issue.check for issue in issues} == {check}


@each_case(*[case[1] for case in CASES])
def test_doctor_health_dashboard_and_alerts_agree_on_what_servers_say_of_themselves(
    make: Callable[[], Snapshot],
) -> None:
    snapshot = make()
    servers: list[Any] = [*snapshot.name_servers, *snapshot.brokers]
    documents = {facts.address: {"alerts": [], **(facts.health or {})} for facts in servers if facts.problem is None}
    documents |= {facts.address: unreachable(facts.problem) for facts in servers if facts.problem is not None}
    documents |= documents_of(snapshot.controllers)
    told = ["own-alerts", "controllers", "nameserver-unreachable", "broker-unreachable"]
    issues = [issue for check in told for issue in found(snapshot, check) if issue.severity is not INFO]
    worst = min((issue.severity for issue in issues), key=[ERROR, WARNING].index, default=None)
    assert exit_code_for(documents.values()) == {ERROR: 1, WARNING: 4, None: 0}[worst]
    assert {row["severity"] for row in rows_of(issues)} == {str(issue.severity) for issue in issues}
    look = ClusterSample(
        {name: [alert_in(alert) for alert in said["alerts"]] for name, said in documents.items()}, set()
    )
    assert bool(find_incidents(look)) is bool(issues)


def test_every_check_has_a_case_here() -> None:
    assert {case[0] for case in CASES} == set(CHECKS)


def test_every_check_is_explained_with_an_example() -> None:
    page = PAGE.read_text()
    for check in CHECKS:
        part = page.partition(f"\n### {check}\n")[2].partition("\n### ")[0]
        assert "```\n" in part, check
        assert len(part.split()) > 12, check


def test_every_command_is_one_of_ours() -> None:
    program: Any = typer.main.get_command(make_app())
    typed = {issue.to_type for _, make, _, _ in CASES for issue in examine(make()) if issue.to_type is not None}
    assert len(typed) > 5
    for line in typed:
        words = shlex.split(line)[1:]
        group, context = program, click.Context(program)
        while isinstance(group, click.Group):
            name, step, words = group.resolve_command(context, words)
            assert step is not None, line
            context = (
                step.make_context(name, list(words), parent=context)
                if not isinstance(step, click.Group)
                else click.Context(step, parent=context)
            )
            group = step


def test_no_hint_leads_back_to_where_issues_are_shown() -> None:
    shown_by = {"doctor", "health", "cluster", "alerts"}
    issues = [issue for _, make, _, _ in CASES for issue in examine(make()) if issue.to_type is not None]
    assert [issue for issue in issues if shlex.split(issue.to_type or "")[1] in shown_by] == []


@each_case(*BrokerAlertRule, *NameServerAlertRule)
def test_an_alert_of_a_server_has_the_command_that_resolves_it_or_none(rule: str) -> None:
    health = {"alerts": [{"rule": rule, "reason": "because"}]}
    snapshot = replace(with_broker(health=health, settings={"storePathRootDir": "/store"}), controllers=[controller(1)])
    if isinstance(rule, NameServerAlertRule):
        snapshot = sample(name_servers=[name_server(health=health)])
    hint = [issue.to_type for issue in found(snapshot, "own-alerts")]
    assert hint == [HINTS.get(rule)]


HINTS: dict[str, str] = {
    BrokerAlertRule.RECOVERY_CUT: "orbitmq store salvage /store --dry-run",
    BrokerAlertRule.MEMBER_MISSING: "orbitmq controller status -a 10.0.0.1:9878",
    BrokerAlertRule.FEW_MEMBERS: "orbitmq controller status -a 10.0.0.1:9878",
    BrokerAlertRule.DISK_FULL: "orbitmq broker config get fileReservedTime",
    BrokerAlertRule.DISK_NEARLY_FULL: "orbitmq broker config get fileReservedTime",
    BrokerAlertRule.NO_NAME_SERVER: "orbitmq broker config get namesrvAddr",
    NameServerAlertRule.BROKER_COUNT_DROPPED: "orbitmq route history --since 24h",
    NameServerAlertRule.ROUTE_QUERIES_FAIL: "orbitmq topic list",
}


def test_a_slow_key_is_not_blamed_on_a_group_that_lost_messages() -> None:
    snapshot = behind(15 * 60_000, client(*QUEUES), count=150)  # it stands before the queue's first message
    assert found(snapshot, "slow-group") == []
    assert found(snapshot, "unread-deleted")


@each_case("slow-group", "unread-expires")
def test_a_queue_without_a_committed_offset_has_no_age(check: str) -> None:
    # Java answers for one with the age of a message of 1970; its first messages are there still.
    snapshot = behind(5_000, client(*QUEUES))
    facts = group({"one": client(*QUEUES)}, {QUEUES[0]: 5_000, QUEUES[1]: NOW_MS + 1})
    committed = {GROUP: {QUEUES[0]: 150}}
    queues = dict(snapshot.queues) | {QUEUES[1]: QueueStats(0, 200)}
    assert found(replace(snapshot, groups={GROUP: facts}, committed=committed, queues=queues), check) == []


OLD = MessageQueue("no-more-read", "a", 0)


@each_case(*product(["slow-group", "unread-expires", "unread-deleted"], list(MessageModel)))
def test_offsets_that_members_do_not_use_any_more_are_no_lag(check: str, model: MessageModel) -> None:
    # Of a topic that they have left; and of all topics, once they read as broadcasting: then clients keep the offsets.
    facts = group({"one": client(*QUEUES)}, {OLD: 80 * HOUR_MS})
    facts = replace(facts, status=replace(facts.status, message_model=model))
    for queue in [OLD] if model is MessageModel.CLUSTERING else [OLD, QUEUES[0]]:
        for stats in (QueueStats(0, 200), QueueStats(150, 200)):
            facts = replace(facts, delays={queue: 80 * HOUR_MS})
            queues = dict(sample().queues) | {queue: stats}
            committed = {GROUP: dict.fromkeys(QUEUES, 200) | {queue: 100}}
            assert found(sample(groups={GROUP: facts}, queues=queues, committed=committed), check) == []


def test_members_that_share_queues_by_pop_are_not_too_many() -> None:
    popping = group({f"c{number}": client() for number in range(6)})
    assert found(sample(groups={GROUP: popping}), "more-clients-than-queues") == []
    silent = replace(popping, clients={})  # as clients of Java's proxy
    assert found(sample(groups={GROUP: silent}), "more-clients-than-queues") == []


def test_a_route_of_billions_of_queues_takes_no_billions_of_names() -> None:
    huge = TopicRoute(
        queues=(QueueData(broker_name="a", read_queue_count=2**31 - 1, write_queue_count=1, perm=6),),
        brokers=(),
    )
    for check in ("queue-without-owner", "more-clients-than-queues"):
        found(sample(routes={TOPIC: huge}), check)


def test_queues_of_a_group_are_not_missed_while_a_client_is_silent() -> None:
    status = group({"one": client(*QUEUES[:2]), "two": client(*QUEUES[2:])})
    silent = replace(status, clients={"one": client(*QUEUES[:2])})
    assert found(sample(groups={GROUP: silent}), "queue-without-owner") == []


def test_a_topic_is_not_unread_while_members_or_offsets_are_not_told() -> None:
    untold = replace(group({}), are_members_known=False)
    assert found(sample(committed={}, groups={GROUP: untold}), "unread-topic") == []
    refusing = with_broker(refusals={"offsets": "no permission"})
    assert found(replace(refusing, committed={}, groups={}), "unread-topic") == []


def test_a_topic_does_not_lack_on_a_broker_that_does_not_tell_its_topics() -> None:
    assert found(with_broker(topics={}, refusals={"topics": "no permission"}), "unbalanced") == []


def test_ordered_topics_with_a_configuration_are_well() -> None:
    snapshot = replace(with_config(order=True), routes={TOPIC: route("a:2;b:2")})
    assert found(snapshot, "order-without-config") == []


def test_names_are_quoted_for_the_shell() -> None:
    assert command("topic", "show", "a b;$(rm -rf ~)") == "orbitmq topic show 'a b;$(rm -rf ~)'"


def test_the_worst_comes_first() -> None:
    issues = [Issue(severity, "check", "s", "t") for severity in (INFO, ERROR, WARNING)]
    assert [issue.severity for issue in worst_first(issues)] == [ERROR, WARNING, INFO]


def test_long_lists_say_how_many_more_there_are() -> None:
    assert listed("abcde") == "a, b, c and 2 more"
    assert listed("abc") == "a, b, c"


LONG_NUMBERS = [f"[ {'9' * 5_000} days, 0 hours, 1 minutes, 0 seconds ]", f"[10s~]:{'9' * 5_000}", "1e300", "-1e300"]


@each_case(*product(["runtime", "putMessageDistributeTime", "bootTimestamp", "commitLogDiskRatio"], LONG_NUMBERS))
def test_a_number_of_any_length_breaks_no_check_and_makes_no_long_line(key: str, text: str) -> None:
    assert all(len(issue.text) < 200 for issue in examine(with_runtime(**{key: text})))


@each_case("1,000", "1.000", "1\u202f000", "1'000")
def test_java_groups_the_digits_of_a_thousand_days(days: str) -> None:
    started = str(NOW_MS - 1_000 * DAY_MS - 60_500)
    runtime = f"[ {days} days, 0 hours, 1 minutes, 0 seconds ]"
    assert found(with_runtime(bootTimestamp=started, runtime=runtime), "clock-difference") == []


@given(
    st.dictionaries(
        st.sampled_from(
            sorted(
                {
                    "bootTimestamp",
                    "runtime",
                    "commitLogDiskRatio",
                    "commitLogMaxOffset",
                    "dispatchBehindBytes",
                    "syncStateSet",
                    "putMessageDistributeTime",
                    "pageCacheLockTimeMills",
                }
            )
        ),
        st.text() | st.sampled_from(["nan", "inf", "1e400", "-5", "[10s~]:x", "9" * 400, *LONG_NUMBERS]),
    )
)
def test_no_value_of_a_broker_breaks_a_check(values: dict[str, str]) -> None:
    examine(with_runtime(**values))


def test_a_slave_whose_master_is_gone_is_not_called_a_broker_without_a_slave():
    of_b = sample().brokers[-1]
    found = examine(sample(brokers=(broker("a", 1), of_b)))
    assert all("without a slave: a" not in issue.text for issue in found)


def test_a_controller_that_another_one_misses_is_one_issue_that_says_since_when() -> None:
    reason = "no answer from the controller n2 (10.0.0.2:9878) since 2026-11-29 10:50:36 UTC"
    missing = {"alerts": [{"rule": "controller_missing", "reason": reason, "severity": "warning"}]}
    snapshot = sample(controllers=[controller(1, health=missing), controller(2, problem="refused"), controller(3)])
    (issue,) = found(snapshot, "controllers")
    assert reason in issue.text
    assert documents_of(snapshot.controllers)["10.0.0.2:9878"]["alerts"][0]["rule"] == "Unreachable"


def test_controllers_that_miss_each_other_are_both_told_of() -> None:
    missing = [
        {
            "alerts": [
                {"rule": "controller_missing", "reason": f"no answer (10.0.0.{other}:9878)", "severity": "warning"}
            ]
        }
        for other in (2, 1)
    ]
    snapshot = sample(controllers=[controller(number, health=missing[number - 1]) for number in (1, 2)])
    assert len(found(snapshot, "controllers")) == 2
