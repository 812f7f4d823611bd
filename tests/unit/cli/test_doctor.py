"""`orbitmq doctor`: issues of a running cluster, exit codes, JSON."""

from cases import each_case
from orbitmq.cli.access import Access
from orbitmq.cli.doctor import command_of, watched_changes
from orbitmq.doctor import Issue, Severity


def test_a_cluster_without_errors_ends_with_0_and_says_what_was_asked(orbitmq, rocketmq):
    result = orbitmq("doctor", "-n", rocketmq.name_servers)
    assert result.code == 0, result.out
    assert "without a slave: broker-a" in result.out
    assert "0 errors, 0 warnings" in result.err
    assert "asked: 1 NameServer, 1 broker" in result.err


@each_case(
    ("orbitmq topic list", "orbitmq topic list -n 'ns:1'"),
    ("orbitmq store salvage /store --dry-run", "orbitmq store salvage /store --dry-run"),
    (None, None),
)
def test_a_command_to_type_names_the_name_servers_that_it_asks(to_type, shown):
    issue = Issue(Severity.ERROR, "own-alerts", "broker a", "text", to_type)
    assert command_of(Access("ns:1", None, 3000), issue) == shown


def test_a_name_server_that_is_not_there_is_an_error_and_ends_with_1(orbitmq, rocketmq):
    servers = f"{rocketmq.name_servers};127.0.0.1:1"
    result = orbitmq("doctor", "-n", servers, "-o", "json")
    assert result.code == 1
    first = result.json[0]
    assert (first["severity"], first["check"], first["subject"]) == (
        "error",
        "nameserver-unreachable",
        "NameServer 127.0.0.1:1",
    )
    assert first["toType"] is None


def test_without_any_name_server_it_ends_with_3(orbitmq):
    result = orbitmq("doctor", "-n", "127.0.0.1:1")
    assert (result.code, "Check that one is running" in result.err) == (3, True)


def test_warnings_alone_end_with_4(orbitmq, rocketmq):
    assert orbitmq("topic", "create", "%DLQ%g", "-n", rocketmq.name_servers).code == 0
    assert orbitmq("send", "%DLQ%g", "given up", "-n", rocketmq.name_servers).code == 0
    result = orbitmq("doctor", "--check", "dead-letters", "-n", rocketmq.name_servers)
    assert result.code == 4
    assert "group g: 1 dead letters" in result.out
    assert result.out.splitlines()[1] == f"         $ orbitmq dlq show g -n '{rocketmq.name_servers}'"


def test_a_check_that_there_is_not_is_refused_with_those_that_there_are(orbitmq):
    result = orbitmq("doctor", "--check", "route-drifts")
    assert result.code == 2
    assert "route-drift" in result.err


def test_of_many_issues_of_one_check_ten_are_printed_and_all_are_counted(orbitmq, rocketmq):
    for number in range(12):
        assert orbitmq("send", f"topic-{number}", "unread", "-n", rocketmq.name_servers).code == 0
    result = orbitmq("doctor", "-n", rocketmq.name_servers)
    assert result.out.count("[unread-topic]") == 10
    assert "INFO     and 2 more: orbitmq doctor --check unread-topic\n" in result.out
    assert orbitmq("doctor", "--check", "unread-topic", "-n", rocketmq.name_servers).out.count("[unread-topic]") == 12


def test_an_address_that_cannot_be_reached_is_named_and_mapped(orbitmq, rocketmq, monkeypatch):
    monkeypatch.setenv("ORBITMQ_MAP_ADDRESS", f"inside.invalid:1={rocketmq.name_servers}")
    assert orbitmq("doctor", "-n", "inside.invalid:1").code == 0
    monkeypatch.delenv("ORBITMQ_MAP_ADDRESS")
    (address,) = rocketmq.brokers.values()
    result = orbitmq("--map-address", f"{address}=127.0.0.1:1", "doctor", "-n", rocketmq.name_servers)
    assert result.code == 1
    assert f"it announces {address}, which does not answer from here" in result.out
    assert "--map-address where it is reached" in result.out
    assert orbitmq("--map-address", "nonsense", "doctor").code == 2


def test_an_issue_that_becomes_worse_begins_again():
    full = Issue(Severity.WARNING, "disk-full", "broker a", "80% of its disk")
    worse = full._replace(severity=Severity.ERROR, text="91% of its disk")
    begun, ended = watched_changes([full], [worse])
    assert begun == [worse]
    assert [issue.severity for issue in ended] == [Severity.WARNING]


def test_all_issues_of_a_subject_begin_and_end_while_figures_alone_are_no_change():
    lost = [Issue(Severity.ERROR, "unread-deleted", "group g", f"{count} messages") for count in (5, 6)]
    assert watched_changes([], lost) == (lost, [])
    assert watched_changes(lost, [lost[0]._replace(text="7 messages")]) == ([], [])
    assert watched_changes(lost, []) == ([], lost[:1])
