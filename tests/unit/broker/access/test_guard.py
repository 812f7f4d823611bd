"""Claims about the guard: the matrix of codes, users and resources, every cell of it; and what it makes of strange requests."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from itertools import product
from typing import Any

import pytest

from cases import each_case
from orbitmq.broker.access.directory import Directory
from orbitmq.broker.access.guard import Guard, host_of
from orbitmq.broker.access.requirements import OURS_ALONE, REQUIREMENTS
from orbitmq.errors import HeaderError, Rejected
from orbitmq.model.access import (
    AccessRule,
    Acl,
    Action,
    Need,
    Pattern,
    Resource,
    ResourceType,
    User,
    UserStatus,
    UserType,
)
from orbitmq.wire.command import FLAG_ONEWAY, Command, SerializeType, decode_command, encode_command
from orbitmq.wire.frame import FrameDecoder
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import ViewMessage
from orbitmq.wire.signature import Credentials, sign_command, signature_of

from .samples import (
    BODY,
    CLUSTER,
    DISABLED,
    FIELDS,
    FORGER,
    INTERNAL,
    JAVA,
    OURS,
    SOURCE,
    STRANGER,
    SUPER,
    UNSIGNED,
    USER,
    acl,
    needs,
    peer,
    rule,
    sample,
)

CODES = sorted(JAVA | OURS)
UNKNOWN = (99, 4711, 220, 103)


def guard(*rules: AccessRule, **settings: Any) -> Guard:
    """Return a guard of a directory in which USER has these rules."""
    users = [
        User(SUPER.access_key, SUPER.secret_key, UserType.SUPER),
        User(INTERNAL.access_key, INTERNAL.secret_key, UserType.SUPER),
        User(DISABLED.access_key, DISABLED.secret_key, UserType.SUPER, UserStatus.DISABLE),
        User(UNSIGNED.access_key, UNSIGNED.secret_key),
        User(USER.access_key, USER.secret_key),
    ]
    acls: dict[str, Acl] = {USER.access_key: acl(*rules)} if rules else {}
    directory = Directory({user.name: user for user in users}, acls)
    whole: dict[str, Any] = {"cluster": CLUSTER, "is_authorizing": True, **settings}
    return Guard(directory, **whole)


def refusal(of: Guard, command: Command, host: str = SOURCE) -> str | None:
    try:
        of.admit(command, peer(host))
    except Rejected as error:
        return error.remark if error.code == 16 else f"code {error.code}"
    return None


def allowing(asked: Iterable[Need], change: Any = None) -> list[AccessRule]:
    """Return rules that allow exactly this, each with the first of the actions that would do."""
    found = [AccessRule(need.resource, need.actions[:1], (), rule("*").decision) for need in asked]
    merged: dict[Resource, AccessRule] = {}
    for one in found:
        old = merged.get(one.resource)
        merged[one.resource] = one if old is None else one._replace(actions=(*old.actions, *one.actions))
    return list(merged.values()) if change is None else [change(one) for one in merged.values()]


def test_the_table_has_every_code_and_says_which_java_asks_no_rule_for():
    assert REQUIREMENTS.keys() == JAVA.keys() | OURS.keys()
    assert OURS.keys() == OURS_ALONE


@each_case(
    (None, "username cannot be null."),
    (STRANGER, "User:stranger is not found."),
    (FORGER, "check signature failed."),
    (DISABLED, "User:disabled is disabled."),
)
def test_who_does_not_show_himself_gets_nothing(credentials: Credentials | None, remark: str):
    for code in (*CODES, *UNKNOWN):
        assert refusal(guard(rule("*")), sample(code, credentials)) == remark, code


@each_case(SUPER, INTERNAL)
def test_super_users_get_everything(credentials: Credentials):
    for code in (*CODES, *UNKNOWN):
        assert refusal(guard(), sample(code, credentials)) is None, code


def test_a_user_without_rules_gets_nothing_that_needs_one():
    for code in CODES:
        said = "User:ruleless has no permission to access {} from " + SOURCE + ", no matched policies."
        expected = {said.format(need.resource) for need in needs(code)}
        assert refusal(guard(rule("*")), sample(code, UNSIGNED)) in expected, code


@each_case(*UNKNOWN)
def test_an_unforeseen_code_is_for_super_users(code: int):
    assert "for super users" in str(refusal(guard(rule("*")), sample(code, USER)))


def prefixed(one: AccessRule) -> AccessRule:
    return one._replace(resource=one.resource._replace(name=(one.resource.name or "")[:-2], pattern=Pattern.PREFIXED))


def every_name(one: AccessRule) -> AccessRule:
    return one._replace(resource=Resource(one.resource.type, None, Pattern.ANY))


def everything(one: AccessRule) -> AccessRule:
    return one._replace(resource=Resource(ResourceType.ANY, None, Pattern.ANY), actions=(Action.ALL,))


def from_here(one: AccessRule) -> AccessRule:
    return one._replace(source_ips=("192.168.0.1", "10.1.0.0/16"))


def by_any_action(one: AccessRule) -> AccessRule:
    return one._replace(actions=(Action.ALL,))


@each_case(None, prefixed, every_name, everything, from_here, by_any_action)
def test_a_user_with_the_rules_is_let_in(change: Any):
    for code in CODES:
        assert refusal(guard(*allowing(needs(code), change)), sample(code, USER)) is None, code


def as_sent(command: Command, form: SerializeType, flag: int) -> Command:
    """Return a request as it comes out of its bytes."""
    (frame,) = FrameDecoder().feed(encode_command(command._replace(serialize_type=form, flag=flag)))
    return decode_command(frame)


@each_case(*product(SerializeType, [0, FLAG_ONEWAY]))
def test_neither_a_binary_header_nor_one_that_wants_no_answer_changes_anything(form: SerializeType, flag: int):
    for code in CODES:
        if form is SerializeType.ROCKETMQ and code >= 1 << 15:
            continue  # a binary header has two bytes for it
        whole = allowing(needs(code))
        said = {credentials: as_sent(sample(code, credentials), form, flag) for credentials in (USER, FORGER, None)}
        assert (said[USER].serialize_type, said[USER].flag) == (form, flag)
        assert refusal(guard(*whole), said[USER]) is None, code
        assert refusal(guard(*whole), said[FORGER]) == "check signature failed.", code
        assert refusal(guard(*whole), said[None]) == "username cannot be null.", code
        for number in range(len(whole)):
            rules = [one for place, one in enumerate(whole) if place != number]
            assert "no matched policies" in str(refusal(guard(*rules), said[USER])), (code, number)


def a_shorter_name(one: AccessRule) -> AccessRule:
    return one._replace(resource=one.resource._replace(name=(one.resource.name or "")[:-1]))


def a_longer_name(one: AccessRule) -> AccessRule:
    return one._replace(resource=one.resource._replace(name=f"{one.resource.name}b"))


def a_longer_beginning(one: AccessRule) -> AccessRule:
    return one._replace(resource=one.resource._replace(name=f"{one.resource.name}b", pattern=Pattern.PREFIXED))


def another_case(one: AccessRule) -> AccessRule:
    return one._replace(resource=one.resource._replace(name=(one.resource.name or "").swapcase()))


def another_kind(one: AccessRule) -> AccessRule:
    return one._replace(resource=one.resource._replace(type=ResourceType.NAMESPACE))


def from_elsewhere(one: AccessRule) -> AccessRule:
    return one._replace(source_ips=("10.1.2.4", "10.2.0.0/16", "::1"))


def other_actions(one: AccessRule) -> AccessRule:
    return one._replace(actions=tuple(action for action in Action if action not in (*one.actions, Action.ALL)))


@each_case(a_shorter_name, a_longer_name, a_longer_beginning, another_case, another_kind, from_elsewhere)
def test_rules_about_something_else_do_not_count(change: Any):
    """Each of the needed rules is spoilt in turn, the others stay."""
    for code in CODES:
        whole = allowing(needs(code))
        for number in range(len(whole)):
            rules = [change(one) if place == number else one for place, one in enumerate(whole)]
            assert "no matched policies" in str(refusal(guard(*rules), sample(code, USER))), rules


def test_other_actions_do_not_count():
    for code in CODES:
        for need in needs(code):
            others = tuple(action for action in Action if action not in (*need.actions, Action.ALL))
            rest = [one for one in allowing(needs(code)) if one.resource != need.resource]
            rules = [*rest, AccessRule(need.resource, others, (), rule("*").decision)]
            assert "no matched policies" in str(refusal(guard(*rules), sample(code, USER)))


@each_case("*", "Topic:*", "Group:*", "Cluster:*")
def test_a_denial_counts_against_every_broader_rule(broad: str):
    for code in CODES:
        for denied in allowing(needs(code)):
            rules = [rule("*"), rule(broad), *allowing(needs(code), prefixed), denied._replace(decision=_DENY)]
            assert refusal(guard(*rules), sample(code, USER)) == (
                f"User:user has no permission to access {denied.resource} from {SOURCE}, the decision is deny."
            )


_DENY = rule("*", decision="Deny").decision


def test_the_fields_order_is_no_part_of_a_signature():
    signed = sample(310, USER)
    turned = signed._replace(ext_fields=dict(reversed(list((signed.ext_fields or {}).items()))))
    assert refusal(guard(rule("Topic:orders", Action.PUB)), turned) is None


@each_case("accesskey", "ACCESSKEY", "accessKey", " AccessKey")
def test_a_name_in_another_case_is_another_field(name: str):
    signed = sample(310, SUPER)
    fields = {name if key == "AccessKey" else key: value for key, value in (signed.ext_fields or {}).items()}
    assert refusal(guard(), signed._replace(ext_fields=fields)) == "username cannot be null."


def test_a_changed_topic_is_noticed():
    signed = sample(310, SUPER)
    changed = signed._replace(ext_fields={**(signed.ext_fields or {}), "b": "payments"})
    assert refusal(guard(), changed) == "check signature failed."


def test_a_changed_body_is_noticed():
    assert refusal(guard(), sample(310, SUPER)._replace(body=BODY + b" ")) == "check signature failed."


@each_case(None, {}, {"AccessKey": ""}, {"AccessKey": "root"}, {"AccessKey": "root", "Signature": ""})
def test_half_a_signature_is_none(fields: dict[str, str] | None):
    assert refusal(guard(), Command(26, ext_fields=fields)) in ("username cannot be null.", "check signature failed.")


def test_no_user_has_the_secret_that_unknown_users_are_checked_with():
    for secret in ("", "no user has this secret"):
        for name, remark in (("whoever", "User:whoever is not found."), ("", "username cannot be null.")):
            fields = {"AccessKey": name}
            signed = {**fields, "Signature": signature_of(fields, b"", secret)}
            assert refusal(guard(), Command(26, ext_fields=signed)) == remark


def test_text_that_cannot_be_signed_is_refused_and_no_error():
    command = Command(26, ext_fields={"AccessKey": "root", "Signature": "\ud800", "x": "\udfff"})
    assert refusal(guard(), command) == "check signature failed."


def test_signatures_cover_unicode_as_java_writes_it():
    command = sign_command(Command(310, ext_fields=FIELDS | {"i": "größe\x01你好 🙂\x02"}, body=b"\xff"), SUPER)
    assert refusal(guard(), command) is None


def test_an_old_client_signs_before_it_adds_how_it_asks():
    fields = FIELDS | {"AccessKey": "root"}
    signature = signature_of(fields, b"", "root-secret")
    asked = Command(12, ext_fields=fields | {"Signature": signature, "_UNIQUE_KEY_QUERY": "true"}, version=395)
    assert refusal(guard(), asked) is None
    assert refusal(guard(), asked._replace(version=479)) == "check signature failed."


@each_case(310, 10, 320, 324, 325)
def test_a_retry_topic_belongs_to_its_group_whatever_group_the_sender_names(code: int):
    """Java believes the field `a` (or `group`): a user who may consume as one group could write into all others' retries."""
    fields = {"b": "%RETRY%payments", "topic": "%RETRY%payments", "a": "billing", "group": "billing"}
    mine = guard(rule("Group:billing", Action.SUB), rule("Topic:*"))
    assert "Group:payments" in str(refusal(mine, sample(code, USER, **fields)))
    assert refusal(guard(rule("Group:payments", Action.SUB)), sample(code, USER, **fields)) is None


@each_case(11, 361, 14, 15, 200050)
def test_reading_a_groups_retries_needs_the_group(code: int):
    """Java asks for no rule on a retry topic that is pulled, so a group could read another one's failed messages."""
    mine = guard(rule("Group:billing"), rule("Topic:*"))
    assert "Group:payments" in str(refusal(mine, sample(code, USER, topic="%RETRY%payments")))
    assert refusal(mine, sample(code, USER, topic="%RETRY%billing")) is None


def test_dead_letters_and_the_systems_topics_are_topics_like_others():
    for topic in ("%DLQ%billing", "SCHEDULE_TOPIC_XXXX", "RMQ_SYS_TRANS_HALF_TOPIC", "DefaultCluster_REPLY_TOPIC"):
        assert f"Topic:{topic}" in str(
            refusal(guard(rule("Group:*"), rule("Topic:orders")), sample(11, USER, topic=topic))
        )
        assert refusal(guard(rule("Group:*"), rule(f"Topic:{topic}")), sample(11, USER, topic=topic)) is None


@each_case(*sorted(set(CODES) - {34, 35, 37, 323, 33}))
def test_a_request_that_leaves_its_fields_out_asks_for_more_not_for_less(code: int):
    command = sign_command(Command(code, ext_fields={}, body=b""), USER)
    first = needs(code)[0].resource
    assert refusal(guard(rule(str(first))), command) is not None or first.type is ResourceType.CLUSTER


@each_case((33, "offset", Action.GET), (36, "offset", Action.SUB), (37, "commitLogOffset", Action.PUB),
     (309, "msgId", Action.SUB), (323, "msgId", Action.UPDATE)
)  # fmt: skip
def test_a_message_named_by_its_place_needs_its_own_topic(code: int, field: str, action: Action):
    rules = [rule("Topic:orders"), rule("Group:billing")]
    asked: list[int] = []

    def topic_at(physical_offset: int) -> str:
        asked.append(physical_offset)
        return "payments"

    watched = guard(*rules, topic_at=topic_at)
    assert "Topic:payments" in str(refusal(watched, sample(code, USER)))
    assert asked == [999_999_999]
    assert refusal(guard(*rules, rule("Topic:payments", action), topic_at=topic_at), sample(code, USER)) is None
    assert refusal(guard(*rules), sample(code, USER)) is None, "there is no such message"


@each_case(("", []), ("x", []), ("--1", []), ("9" * 30, []), ("9" * 5000, []), ("0x10", []), ("-1", [-1]), ("٣", [3]), ("1_0", [10]),
     (" 1", [1]), ("+1", [1])
)  # fmt: skip
def test_a_place_is_read_as_the_handlers_header_reads_it(text: str, places: list[int]):
    """Otherwise a strange spelling would name a message to the handler, and none to the guard."""
    asked: list[int] = []

    def topic_at(place: int) -> None:
        asked.append(place)

    refusal(guard(rule("*"), topic_at=topic_at), sample(33, USER, offset=text))
    assert asked == places
    if places:
        assert decode_header(ViewMessage, {"offset": text}).physical_offset == places[0]
    else:
        with pytest.raises(HeaderError):
            decode_header(ViewMessage, {"offset": text})


@each_case(
    *product(
        [34, 41, 42, 46, 400, 401, 200151, 200, 18, 225],
        [b"", b"x", b"[]", b"{", b'{"consumerGroup":1}', b"[" * 100_000],
    )
)
def test_a_body_that_cannot_be_read_is_refused(code: int, body: bytes):
    command = sign_command(Command(code, ext_fields=FIELDS, body=body), USER)
    assert refusal(guard(rule("*")), command) == "parse authorization context error."


def test_every_group_and_topic_of_a_heartbeat_counts():
    other = BODY.replace(b'"groupName": "billing", "consumeType"', b'"groupName": "payments", "consumeType"')
    assert other != BODY
    command = sign_command(Command(34, ext_fields=FIELDS, body=other), USER)
    assert "Group:payments" in str(refusal(guard(rule("Group:billing"), rule("Topic:*")), command))


def test_codes_of_the_white_lists_need_less():
    lenient = guard(unsigned=[26, 28], unruled=[26, 30])
    assert refusal(lenient, sample(26, None)) is None
    assert "verify your access rights" in str(refusal(lenient, sample(28, None))), "a rule needs somebody to have it"
    assert refusal(lenient, sample(30, None)) == "username cannot be null."
    assert refusal(lenient, sample(30, UNSIGNED)) is None
    assert "verify your access rights" in str(refusal(lenient, sample(28, FORGER))), "a claimed name counts for nothing"


def test_without_authorization_every_signing_user_may_do_everything():
    assert refusal(guard(is_authorizing=False), sample(25, UNSIGNED)) is None
    assert refusal(guard(is_authorizing=False), sample(25, None)) == "username cannot be null."


def test_who_comes_from_a_trusted_address_is_not_looked_at():
    trusting = guard(is_trusted=lambda host: host == "10.1.2.3")
    assert refusal(trusting, sample(25, None)) is None
    assert refusal(trusting, sample(25, None), "10.1.2.4") is not None


def test_a_changed_rule_counts_immediately():
    watched = guard(rule("Topic:orders"))
    assert refusal(watched, sample(310, USER)) is None
    users = {USER.access_key: User(USER.access_key, USER.secret_key)}
    watched.replace_directory(Directory(users, {}))
    assert refusal(watched, sample(310, USER)) is not None
    watched.replace_directory(Directory({}, {}))
    assert refusal(watched, sample(310, USER)) == "User:user is not found."


def test_the_memory_of_decisions_has_an_end(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr("orbitmq.broker.access.guard.REMEMBERED_MAX", 100)
    watched = guard(rule("*"))
    for number in range(105):
        assert refusal(watched, sample(31, SUPER if number % 50 else USER, topic=f"t{number}")) is None
    for number in range(105):
        watched._decide("user", SOURCE, Need(Resource(ResourceType.TOPIC, f"t{number}"), (Action.GET,)))
    assert len(watched._decisions) <= 100


def test_what_is_decided_of_names_that_nothing_can_have_is_not_remembered():
    watched = guard(rule("Topic:t*"))
    assert refusal(watched, sample(31, USER, topic="t" * 256)) is None
    assert refusal(watched, sample(31, USER, topic="u" * 256)) is not None
    assert not watched._decisions


def test_denials_are_counted_by_what_was_missing_and_told_without_secrets(caplog: pytest.LogCaptureFixture):
    watched = guard()
    with caplog.at_level(logging.WARNING):
        refusal(watched, sample(26, FORGER))
        refusal(watched, sample(26, None))
        refusal(watched, sample(26, UNSIGNED))
    assert watched.denials == {"signature": 2, "rule": 1}
    assert "refused request 26 from 10.1.2.3:4711" in caplog.text
    assert "secret" not in caplog.text


def test_a_name_that_breaks_lines_breaks_no_log(caplog: pytest.LogCaptureFixture):
    with caplog.at_level(logging.WARNING):
        refusal(guard(), sign_command(Command(26, ext_fields={}), Credentials("a\nroot is let in", "secret")))
    assert all("\n" not in record.getMessage() for record in caplog.records)


@each_case(("10.0.0.1:5", "10.0.0.1"), ("[::1]:5", "::1"), ("::1:5", "::1"), ("[::ffff:10.0.0.1]:5", "10.0.0.1"),
     ("[fe80::1%eth0]:5", "fe80::1"), ("unknown:0", "unknown")
)  # fmt: skip
def test_a_peers_address_is_told_in_one_form(remote: str, host: str):
    found = peer()
    found.remote = remote
    assert host_of(found) == host
