"""Users and rules (ACL 2.0): a Java broker and one of ours, both with auth on, are asked the same; so are their administrators.

The matrix asks both brokers every code as every kind of user. A request is refused by both in the same words, or served by both; what
in the samples is `OURS` or `MORE_THAN_JAVA` is not: docs/compatibility.md says why.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from interop.peers import JavaBroker, JavaClients, PeerError, ask, message
from interop.peers import guarded as guarded_settings
from orbitmq import Message
from orbitmq.blocking import Producer, PushConsumer
from orbitmq.errors import OrbitError
from orbitmq.testing import BlockingCluster, LocalCluster
from orbitmq.wire.signature import Credentials, sign
from unit.broker.access.samples import BODY, CLUSTER, FIELDS, GROUP, JAVA, MORE_THAN_JAVA, OURS, TOPIC

ROOT = Credentials("root", "root-secret")
INNER = Credentials("inner", "inner-secret")
DISABLED = Credentials("disabled", "disabled-secret")
ADMISSION = re.compile(
    r"no permission (to access|for request)|username cannot be null|is not found\.$|is disabled\.$|check signature failed"
    r"|verify your access rights|parse authorization context error"
)
RISKY = {905, 906, 908, 1008}
"""What would make a Java master something else; it is asked as those alone who are refused."""
UNKNOWN_TO_OURS = 4711


@dataclass(frozen=True)
class Guarded:
    """A Java broker and one of ours, each with the same users, at one NameServer of ours."""

    cluster: BlockingCluster
    java: JavaBroker

    @property
    def name_servers(self) -> str:
        return self.cluster.name_servers

    @property
    def ours(self) -> str:
        return self.cluster.brokers["broker-a"]

    @property
    def both(self) -> tuple[str, str]:
        return self.java.address, self.ours


@pytest.fixture(scope="module")
def guarded(jars: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    properties, settings = guarded_settings(ROOT, INNER)
    with LocalCluster.running(settings=settings) as cluster:
        home = tmp_path_factory.mktemp("guarded-java-broker")
        broker = JavaBroker(home, cluster.name_servers, cluster=CLUSTER, properties=properties)
        broker.start()
        try:
            yield Guarded(cluster, broker)
        finally:
            broker.kill()


def asked(
    address: str, code: int, credentials: Credentials | None, fields: dict[str, str] | None = None, body: bytes = b""
) -> tuple[int, str, bytes]:
    """Ask one signed question; return the answer's code, remark and body."""
    plain = fields or {}
    signed = plain if credentials is None else sign(plain, body, credentials)
    header, answered = ask(address, code, signed, body=body)
    return int(header["code"]), str(header.get("remark")), answered


def refusal(address: str, code: int, credentials: Credentials | None) -> str | None:
    """Return in which words the door refused the sample under a code; None when it let it in."""
    found, remark, _ = asked(address, code, credentials, FIELDS, BODY)
    return remark if found == 16 and ADMISSION.search(remark) else None


def make_user(at: Guarded, user: Credentials, *rules: str, **change: str) -> Credentials:
    """Make a user on both brokers; a rule is `Topic:orders=Sub|Get`, with `!` before it a denial."""
    for address in at.both:
        fields, body = {"username": user.access_key}, {"password": user.secret_key, **change}
        assert asked(address, 3001, ROOT, fields, json.dumps(body).encode())[0] == 0
        entries = []
        for text in rules:
            resource, _, actions = text.removeprefix("!").partition("=")
            decision = "Deny" if text.startswith("!") else "Allow"
            entries.append({"resource": resource, "actions": actions.split("|"), "decision": decision})
        if entries:
            acl = {"subject": f"User:{user.access_key}", "policies": [{"policyType": "Custom", "entries": entries}]}
            answer = asked(address, 3006, ROOT, {"subject": f"User:{user.access_key}"}, json.dumps(acl).encode())
            assert answer[0] == 0, answer
    return user


def drop_user(at: Guarded, user: Credentials) -> None:
    for address in at.both:
        assert asked(address, 3003, ROOT, {"username": user.access_key})[0] == 0


def test_both_brokers_let_in_and_refuse_the_same(guarded: Guarded):
    """Every code of Java's table, asked as each kind of user, of both brokers."""
    make_user(guarded, DISABLED, userStatus="disable")
    roles: dict[str, Credentials | None] = {
        "nobody": None,
        "stranger": Credentials("stranger", "root-secret"),
        "forger": Credentials("root", "another-secret"),
        "disabled": DISABLED,
        "without rules": make_user(guarded, Credentials("ruleless", "ruleless-secret")),
        "another name": make_user(
            guarded, Credentials("another", "another-secret"),
            *(f"{kind}{end}=All" for kind in (f"Topic:{TOPIC}", f"Group:{GROUP}", f"Cluster:{CLUSTER}") for end in ("b", "b*")),
            f"Topic:{TOPIC[:-1]}=All", f"Group:{GROUP[:-1]}=All",
        ),
        "denied": make_user(guarded, Credentials("denied", "denied-secret"), "!*=All"),
    }  # fmt: skip
    for role, credentials in roles.items():
        for code in JAVA:
            by_java, by_ours = (refusal(address, code, credentials) for address in guarded.both)
            assert by_java is not None, (role, code)
            assert by_ours == by_java or code in MORE_THAN_JAVA, (role, code)
            assert by_ours is not None


def test_both_brokers_ask_for_the_same_rules(guarded: Guarded):
    """With exactly its rules a user is let in by both; without any one of them, or with one denied, by neither."""
    for number, (code, rules) in enumerate(JAVA.items()):
        if code in RISKY:
            continue
        parts = [part.replace("Sub|Get", "Get").replace("Sub|Update", "Sub") for part in rules.split()]
        more = MORE_THAN_JAVA.get(code, "").replace("=", "=").split()
        whole = make_user(guarded, Credentials(f"whole-{number}", "secret-1"), *_joined([*parts, *more]))
        assert [refusal(address, code, whole) for address in guarded.both] == [None, None], code
        for left_out in parts:
            rest = [part for part in parts if part != left_out]
            some = make_user(guarded, Credentials("some", "secret-2"), *rest)
            denied = make_user(guarded, Credentials("refused", "secret-3"), *rest, f"!{left_out}")
            for user in (some, denied):
                by_java, by_ours = (refusal(address, code, user) for address in guarded.both)
                assert by_java is not None, (code, left_out)
                assert by_ours == by_java or code in MORE_THAN_JAVA
                drop_user(guarded, user)
        drop_user(guarded, whole)


def _joined(rules: list[str]) -> list[str]:
    """Join the actions of rules about one resource."""
    found: dict[str, list[str]] = {}
    for text in rules:
        resource, _, actions = text.partition("=")
        found.setdefault(resource, []).append(actions)
    return [f"{resource}={'|'.join(actions)}" for resource, actions in found.items()]


def test_a_wrong_key_is_refused_in_another_way_than_a_user_without_rules(guarded: Guarded):
    """The dashboard's login tells them apart by this."""
    user = make_user(guarded, Credentials("unruled", "unruled-secret"))
    for address in guarded.both:
        right, *wrong = (
            asked(address, 28, Credentials(user.access_key, secret))[:2]
            for secret in (user.secret_key, user.secret_key + "?", "guess", "guess?")
        )
        assert len(set(wrong)) == 1
        assert right not in wrong
        assert wrong[0][0] == 16


def test_super_users_are_let_in_by_both(guarded: Guarded):
    for code in sorted(JAVA.keys() - RISKY - {354, 355}):
        for user in (ROOT, INNER):
            assert [refusal(address, code, user) for address in guarded.both] == [None, None], code


def test_java_asks_no_rule_where_ours_does(guarded: Guarded):
    user = make_user(guarded, Credentials("signs", "signs-secret"))
    for code in sorted(OURS.keys() - {25, 27, 513, 2001, 2002, 2003, 2004, 30001, 200056, 22, 23, 1007, 907}):
        by_java, by_ours = (refusal(address, code, user) for address in guarded.both)
        assert (by_java, by_ours is not None) == (None, True), code
    assert "for super users" in str(refusal(guarded.ours, UNKNOWN_TO_OURS, user))


def test_a_request_without_any_field_is_refused_by_both(guarded: Guarded):
    for address in guarded.both:
        assert asked(address, 26, None)[:2] == (16, "username cannot be null.")


@pytest.fixture
def mqadmin(java: JavaClients, guarded: Guarded) -> Iterator[Callable[..., str]]:
    """Return a function that runs mqadmin, signed as the super user; brokers are J and O in what it prints."""
    tools = java.home / "conf" / "tools.yml"
    tools.parent.mkdir(exist_ok=True)
    tools.write_text(f"accessKey: {ROOT.access_key}\nsecretKey: {ROOT.secret_key}\n")

    def run(*words: str) -> str:
        printed = java.mqadmin(*words, "-n", guarded.name_servers)
        return printed.replace(guarded.java.address, "J").replace(guarded.ours, "O")

    yield run
    tools.unlink()


def _user(**said: str) -> dict[str, Any]:
    return {"username": "anna", **said}


def _acl(resources: str, actions: str, decision: str, ips: str = "", subject: str = "User:anna") -> dict[str, Any]:
    """Return rules as mqadmin's createAcl and updateAcl send them."""
    entries = [
        {"resource": resource, "actions": actions.split(","), "decision": decision}
        | ({"sourceIps": ips.split(",")} if ips else {})
        for resource in resources.split(",")
    ]
    return {"subject": subject, "policies": [{"policyType": "Custom", "entries": entries}]}


ANNA, SUBJECT = {"username": "anna"}, {"subject": "User:anna"}
REQUESTS: list[tuple[int, dict[str, str], dict[str, Any] | None]] = [
    (3001, ANNA, _user(password="pw-1", userType="Normal")),
    (3001, ANNA, _user(password="pw-1")),
    (3001, {"username": "root2"}, {"username": "root2", "password": "pw-2", "userType": "super"}),
    (3001, {"username": "ben"}, {"username": "ben"}),
    (3001, {}, _user(password="pw-1")),
    (3002, ANNA, _user(password="pw-3")),
    (3002, ANNA, _user(userStatus="disable")),
    (3002, ANNA, _user(userType="Super")),
    (3002, {"username": "nobody"}, _user(password="pw-3")),
    (3004, ANNA, None),
    (3004, {"username": "nobody"}, None),
    (3004, {"username": " "}, None),
    (3005, {"filter": "a"}, None),
    (3005, {"filter": "root"}, None),
    (3005, {"filter": "nothing-like-this"}, None),
    (3009, SUBJECT, None),
    (3006, SUBJECT, _acl("Topic:a*,Group:*,*", "Pub,sub", "Allow", "10.0.0.0/8,::1")),
    (3006, SUBJECT, _acl("Topic:b", "All", "deny")),
    (3006, {"subject": "User:nobody"}, _acl("Topic:b", "All", "Deny", subject="User:nobody")),
    (3006, SUBJECT, _acl("Topc:b", "All", "Deny")),
    (3006, SUBJECT, _acl("Topic:b", "Any", "Deny")),
    (3006, SUBJECT, _acl("Topic:b", "Put", "Deny")),
    (3006, SUBJECT, _acl("Topic:b", "All", "Deny", "10.0.0")),
    (3006, SUBJECT, _acl("Topic:b", "All", "Perhaps")),
    (3006, SUBJECT, {"policies": [{"entries": []}]}),
    (3007, SUBJECT, _acl("Topic:b,topic:c", "Get,List", "Allow")),
    (3009, SUBJECT, None),
    (3009, {"subject": "User:root2"}, None),
    (3009, {"subject": "User:nobody"}, None),
    (3010, {"subjectFilter": "anna"}, None),
    (3010, {"subjectFilter": "User", "resourceFilter": "Group"}, None),
    (3010, {"subjectFilter": "nothing-like-this"}, None),
    (3008, SUBJECT | {"resource": "Topic:b"}, None),
    (3008, SUBJECT | {"resource": "Topic:never"}, None),
    (3009, SUBJECT, None),
    (3008, SUBJECT, None),
    (3008, SUBJECT, None),
    (3008, {"subject": "User:nobody"}, None),
    (3003, ANNA, None),
    (3003, ANNA, None),
    (3003, {"username": "root2"}, None),
]
"""What mqadmin's commands for users and rules send, and some that it does not. Its own outputs are made of the answers alone."""


def test_administrators_get_the_same_answers_from_both(guarded: Guarded):
    for request in REQUESTS:
        code, fields, document = request
        body = b"" if document is None else json.dumps(document).encode()
        by_java, by_ours = (asked(address, code, ROOT, fields, body) for address in guarded.both)
        # Java's remark to a success is that no code was set.
        assert by_ours[0] == by_java[0], request
        assert by_ours[2] == by_java[2], request
        assert by_java[0] == 0 or by_ours[1] == by_java[1], request


def test_mqadmin_makes_and_copies_users_and_rules(guarded: Guarded, mqadmin: Callable[..., str]):
    assert mqadmin("createUser", "-b", guarded.ours, "-u", "copied", "-p", "pw").strip() == "create user to O success."
    made = mqadmin("createAcl", "-b", guarded.ours, "-s", "User:copied", "-r", "Topic:c*", "-a", "Pub", "-d", "Deny")
    assert made.strip() == "create acl to O success."
    copied = mqadmin("copyUser", "-f", guarded.ours, "-t", guarded.java.address, "-u", "copied")
    assert copied.strip() == "copy user of copied from O to J success."
    copied = mqadmin("copyAcl", "-f", guarded.ours, "-t", guarded.java.address, "-s", "User:copied")
    assert copied.strip() == "copy acl of User:copied from O to J success."
    by_java, by_ours = (mqadmin("listAcl", "-b", address, "-s", "copied") for address in guarded.both)
    assert by_java == by_ours
    assert "Topic:c*" in by_ours
    for code, fields in ((3004, {"username": "copied"}), (3009, {"subject": "User:copied"})):
        first, second = (asked(address, code, ROOT, fields) for address in guarded.both)
        assert first[::2] == second[::2]
    drop_user(guarded, Credentials("copied", "pw"))


@pytest.fixture
def topics(guarded: Guarded, name: str) -> tuple[str, str]:
    """Two topics, the first on the Java broker alone, the second on ours alone."""
    made = (f"{name}-java", f"{name}-ours")
    for address, topic in zip(guarded.both, made, strict=True):
        fields = {"topic": topic, "defaultTopic": "TBW102", "readQueueNums": "1", "writeQueueNums": "1", "perm": "6",
                  "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false"}  # fmt: skip
        assert asked(address, 17, ROOT, fields)[0] == 0
    return made


@pytest.mark.parametrize("side", [0, 1], ids=["java", "ours"])
def test_a_refused_request_that_wants_no_answer_has_no_effect(guarded: Guarded, topics: tuple[str, str], side: int):
    """The refusal is not reported to clients: the next message has the first place, and the group's offset is where it was."""
    address, topic = guarded.both[side], topics[side]
    denied = make_user(guarded, Credentials(f"{topic}-denied", "quiet-secret"), "!*=All")
    assert asked(address, 200, ROOT, body=json.dumps({"groupName": topic}).encode())[0] == 0
    refused = (None, Credentials("stranger", "secret"), Credentials("root", "another-secret"), denied)
    send = {**FIELDS, "b": topic, "a": topic, "m": "false"}
    place = {"topic": topic, "queueId": "0", "consumerGroup": topic}
    commit = {**place, "commitOffset": "1"}

    def signed(fields: dict[str, str], body: bytes, who: Credentials | None) -> dict[str, str]:
        return fields if who is None else sign(fields, body, who)

    sends = [(310, signed(send, b"refused", who), b"refused") for who in refused]
    header, _ = ask(address, 310, sign(send, b"first", ROOT), body=b"first", one_way=sends)
    assert (header["code"], header["extFields"]["queueOffset"]) == (0, "0")
    commits = [(15, signed(commit, b"", who), b"") for who in refused]
    header, _ = ask(address, 14, sign(place, b"", ROOT), one_way=commits)
    assert (header.get("extFields") or {}).get("offset") != "1"
    allowed = [(15, sign(commit, b"", ROOT), b"")]  # so it is the refusal, and not the form
    while ask(address, 14, sign(place, b"", ROOT), one_way=allowed)[0]["extFields"].get("offset") != "1":
        pass
    drop_user(guarded, denied)


def test_javas_clients_work_with_ours_by_their_rules(guarded: Guarded, java: JavaClients, topics: tuple[str, str]):
    topic = topics[1]
    user = make_user(
        guarded, Credentials("client", "client-secret"), f"Topic:{topic}=Pub|Sub|Get", f"Group:{topic}=Sub"
    )
    keys = {"access_key": user.access_key, "secret_key": user.secret_key}
    producer = java.producer(f"{topic}-producers", guarded.name_servers, **keys)
    consumer = java.consumer(topic, guarded.name_servers, topic, **keys)
    producer.send(message(topic, b"allowed"))
    assert [item["body"] for item in consumer.wait_for_messages(1)] == [b"allowed"]
    for client in (consumer, producer):
        client.stop()
    drop_user(guarded, user)
    make_user(guarded, user, f"Topic:{topic}=Sub")
    refused = java.producer(f"{topic}-refused", guarded.name_servers, **keys)
    with pytest.raises(PeerError, match=r"no permission|still failed"):
        refused.send(message(topic, b"no"))
    refused.stop()
    drop_user(guarded, user)


def test_our_clients_work_with_both_by_their_rules(guarded: Guarded, topics: tuple[str, str]):
    for topic in topics:
        user = make_user(
            guarded, Credentials("client", "client-secret"), f"Topic:{topic}=Pub|Sub|Get", f"Group:{topic}=Sub"
        )
        with Producer(f"{topic}-producers", guarded.name_servers, credentials=user) as producer:
            producer.send(Message(topic, b"allowed"))
            with PushConsumer(topic, guarded.name_servers, credentials=user) as consumer:
                consumer.subscribe(topic)
                batch = consumer.next_batch(timeout_ms=20_000)
                assert batch is not None
                assert [item.body for item in batch] == [b"allowed"]
                batch.commit()
            drop_user(guarded, user)
            make_user(guarded, user, f"Topic:{topic}=Sub")
            with pytest.raises(OrbitError, match="no permission"):
                producer.send(Message(topic, b"no"))
        drop_user(guarded, user)
