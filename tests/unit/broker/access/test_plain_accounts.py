"""Claims about accounts of 4.x: they become the users and rules that Java's migration makes of them."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.broker.access.plain_accounts import parse_plain_acl, trusts
from orbitmq.errors import HeaderError
from orbitmq.model.access import Action, PolicyType, User, UserType
from unit.broker.access.samples import acl, rule

FILE = """
# As RocketMQ 4.9 ships it.
globalWhiteRemoteAddresses:
- 10.10.103.*
- 192.168.0.*

accounts:
- accessKey: RocketMQ
  secretKey: 12345678
  whiteRemoteAddress:
  admin: false
  defaultTopicPerm: DENY
  defaultGroupPerm: SUB
  topicPerms:
  - topicA=DENY
  - topicB=PUB|SUB
  - topicC=SUB
  groupPerms:
  # the group should convert to retry topic
  - groupA=DENY
  - groupB=PUB|SUB
  - groupC=SUB

- accessKey: rocketmq2
  secretKey: 12345678
  whiteRemoteAddress: 192.168.1.*
  # if it is admin, it could access all resources
  admin: true
"""


def test_the_file_that_rocketmq_ships():
    found = parse_plain_acl(FILE)
    assert found.users == (User("RocketMQ", "12345678"), User("rocketmq2", "12345678", UserType.SUPER))
    assert found.acls == (
        acl(
            rule("Topic:topicA", decision="Deny"),
            rule("Topic:topicB", Action.PUB, Action.SUB),
            rule("Topic:topicC", Action.SUB),
            rule("Group:groupA", decision="Deny"),
            rule("Group:groupB", Action.PUB, Action.SUB),
            rule("Group:groupC", Action.SUB),
            default=(rule("Topic:*", decision="Deny"), rule("Group:*", Action.SUB)),
            name="RocketMQ",
        ),
    )
    assert found.trusted == ("10.10.103.*", "192.168.0.*")
    assert [text.partition(":")[0] for text in found.unused] == ["whiteRemoteAddress of rocketmq2"]


def test_a_retry_topic_in_a_groups_place_is_the_group():
    text = "accounts:\n- accessKey: a\n  secretKey: s\n  groupPerms:\n  - '%RETRY%g = SUB | PUB'\n"
    (found,) = parse_plain_acl(text).acls
    assert found.rules(PolicyType.CUSTOM) == (rule("Group:g", Action.PUB, Action.SUB)._replace(
        actions=(Action.PUB, Action.SUB)),)  # fmt: skip


@each_case(
    "- x",
    "accounts: x",
    "accounts:\n- x",
    "accounts:\n- accessKey: a",
    "accounts:\n- accessKey: a\n  secretKey: hunter2\n  topicPerms:\n  - t",
    "accounts:\n- accessKey: a\n  secretKey: hunter2\n  topicPerms:\n  - t=PUT",
    "accounts:\n- accessKey: a\n  secretKey: hunter2\n  defaultTopicPerm: NO",
    "globalWhiteRemoteAddresses:\n- 10.0.0\n",
    "globalWhiteRemoteAddresses:\n- 10.0.0.300-400\n",
    "globalWhiteRemoteAddresses:\n- 10.0.*\n",
    "globalWhiteRemoteAddresses:\n- 10.0.0.{1,2}x\n",
)
def test_what_is_not_understood_is_refused_and_shows_no_secret(text: str):
    with pytest.raises(HeaderError) as refused:
        parse_plain_acl(text)
    assert "hunter2" not in str(refused.value)


@each_case(
    ("*", ["10.0.0.1", "::1"], []),
    ("10.0.0.1", ["10.0.0.1"], ["10.0.0.10", "10.0.0.2"]),
    ("10.0.*.*", ["10.0.3.4"], ["10.1.0.0", "10.0.3", "::1", "10.0.3.4.5"]),
    ("10.0.1-5.*", ["10.0.1.9", "10.0.5.0"], ["10.0.0.1", "10.0.6.1"]),
    ("10.0.0.{1,4}", ["10.0.0.1", "10.0.0.4"], ["10.0.0.2", "10.0.0.14"]),
    ("10.0.0.1, 10.0.0.2", ["10.0.0.1", "10.0.0.2"], ["10.0.0.3"]),
    ("10.0.0.0/30", ["10.0.0.3"], ["10.0.0.4", "::1", "unknown"]),
    ("::1", ["::1"], ["::2"]),
)
def test_addresses_that_are_let_in(pattern: str, inside: list[str], outside: list[str]):
    trusted = trusts((pattern,))
    assert trusted is not None
    assert [host for host in (*inside, *outside) if trusted(host)] == inside


def test_without_addresses_none_is():
    assert trusts(()) is None


@each_case(
    ("globalWhiteRemoteAddresses:\n- 10.10.*.*\n- '*'  # all", ("10.10.*.*", "*")),
    ("globalWhiteRemoteAddresses: [10.1.1.1, 10.1.1.2]", ("10.1.1.1", "10.1.1.2")),
    ("globalWhiteRemoteAddresses: ~\naccounts: null", ()),
    ("accounts: []", ()),
)
def test_yaml_is_read_with_every_word_as_text(text: str, addresses: tuple[str, ...]):
    assert parse_plain_acl(text).trusted == addresses


def test_a_secret_that_looks_like_a_number_or_nothing_is_text():
    account = "accounts:\n- accessKey: yes\n  secretKey: 00123456"
    (user,) = parse_plain_acl(account).users
    assert (user.name, user.password) == ("yes", "00123456")


@each_case(
    "accounts: &x []\nother: *x",
    "accounts:\n- accessKey: hunter2\n  accessKey: hunter3",
    "accounts: [hunter2",
    "\taccounts: hunter2",
    "accounts: hunter2\n- c",
    "accounts: 'hunter2",
    "[" * 5_000,
    "accounts: \0",
)
def test_what_is_no_plain_yaml_is_refused_with_its_line_and_without_its_content(text: str):
    with pytest.raises(HeaderError, match=r"line \d+: |no YAML") as refused:
        parse_plain_acl(text)
    assert "hunter" not in str(refused.value)
