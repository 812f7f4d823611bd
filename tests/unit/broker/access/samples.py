"""One request that has the fields and the body of every code, and what each code asks for in it, as Java's sources say.

JAVA was read off DefaultAuthorizationContextBuilder and the annotations of RocketMQ 5.3.3's request headers, not off ours;
`tests/interop/test_access.py` holds it against a running broker. OURS are the codes that Java asks no rule for.
"""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import Any

from orbitmq.model.access import (
    AccessDecision,
    AccessRule,
    Acl,
    Action,
    Need,
    Policy,
    PolicyType,
    by_name,
    parse_resource,
)
from orbitmq.net.counters import Counters
from orbitmq.wire.command import Command
from orbitmq.wire.signature import Credentials, sign_command

CLUSTER, TOPIC, GROUP = "DefaultCluster", "orders", "billing"
SOURCE = "10.1.2.3"

FIELDS = {
    # Names of topics, groups and clusters, by all the words for them.
    "topic": TOPIC, "b": TOPIC, "consumerGroup": GROUP, "group": GROUP, "groupName": GROUP, "compareGroup": GROUP,
    "srcGroup": GROUP, "destGroup": GROUP, "clusterName": CLUSTER, "brokerClusterName": CLUSTER,
    # What the headers need besides.
    "a": "p", "producerGroup": "p", "c": "TBW102", "defaultTopic": "TBW102", "d": "4", "defaultTopicQueueNums": "4",
    "e": "0", "queueId": "0", "f": "0", "sysFlag": "0", "g": "1", "bornTimestamp": "1", "h": "0", "flag": "0",
    "i": "", "properties": "", "j": "0", "k": "false", "l": "3", "m": "false", "n": "broker-a",
    "queueOffset": "0", "maxMsgNums": "1", "commitOffset": "0", "suspendTimeoutMillis": "0", "subscription": "*",
    "subVersion": "0", "offset": "999999999", "commitLogOffset": "999999999", "tranStateTableOffset": "0", "commitOrRollback": "8",
    "msgId": "7F00000100002A9F000000003B9AC9FF", "delayLevel": "0", "originMsgId": "x", "key": "k", "maxNum": "1",
    "beginTimestamp": "0", "endTimestamp": "1", "timestamp": "0", "isForce": "false", "readQueueNums": "1",
    "writeQueueNums": "1", "perm": "6", "topicFilterType": "SINGLE_TAG", "topicSysFlag": "0", "order": "false",
    "clientID": "c", "clientId": "c", "clientAddr": "", "index": "0", "count": "1", "recallHandle": "x",
    "brokerName": "broker-a", "brokerId": "0", "statsName": "TOPIC_PUT_NUMS", "statsKey": "k", "isOrder": "false",
    "invisibleTime": "1000", "pollTime": "0", "bornTime": "1", "initMode": "0", "extraInfo": "x", "username": "no-such-user",
    "subject": "User:no-such-user", "readable": "true",
    "configType": "topics",
}  # fmt: skip
BODY = json.dumps(
    {
        "clientID": "c", "clientId": "c", "consumerGroup": GROUP, "group": GROUP, "groupName": GROUP, "topic": TOPIC,
        "consumerDataSet": [
            {"groupName": GROUP, "consumeType": "CONSUME_PASSIVELY", "messageModel": "CLUSTERING",
             "consumeFromWhere": "CONSUME_FROM_LAST_OFFSET", "unitMode": False,
             "subscriptionDataSet": [{"topic": TOPIC, "subString": "*", "subVersion": 1}]}
        ],
        "mqSet": [{"topic": TOPIC, "brokerName": "broker-a", "queueId": 0}],
        "subscriptionData": {"topic": TOPIC, "subString": "*"},
        "strategyName": "AVG", "messageModel": "CLUSTERING", "mode": "PULL", "popShareQueueNum": 0,
        "acks": [{"c": GROUP, "t": TOPIC, "r": "0", "so": 0, "q": 0, "rq": 0, "pt": 1, "it": 1, "b": "AQ=="}],
        "topicConfigList": [{"topicName": TOPIC, "perm": 6}], "groupConfigList": [{"groupName": GROUP}],
    }
).encode()  # fmt: skip

_T, _G, _C = f"Topic:{TOPIC}", f"Group:{GROUP}", f"Cluster:{CLUSTER}"
_OBSERVE, _GOVERN = f"{_C}=Get", f"{_C}=Update"
_CONSUME = f"{_T}=Sub {_G}=Sub"
_LOOK = f"{_T}=Get {_G}=Get"

JAVA: dict[int, str] = {
    10: f"{_T}=Pub", 11: _CONSUME, 12: f"{_T}=Sub|Get", 14: f"{_T}=Sub|Get {_G}=Sub|Get",
    15: f"{_T}=Sub|Update {_G}=Sub|Update", 17: f"{_T}=Create", 29: f"{_T}=Get", 30: f"{_T}=Get", 31: f"{_T}=Get",
    32: f"{_T}=Get", 33: f"{_T}=Get", 34: f"{_G}=Sub {_T}=Sub", 35: f"{_G}=Sub", 36: f"{_G}=Sub", 37: f"{_T}=Pub",
    38: f"{_G}=Sub|Get", 41: f"{_G}=Sub {_T}=Sub", 42: f"{_G}=Sub {_T}=Sub", 202: f"{_T}=Get", 203: f"{_G}=Get",
    204: _OBSERVE, 207: f"{_G}=Delete", 208: f"{_G}=Get {_T}=Get", 215: f"{_T}=Delete",
    222: f"{_G}=Update {_T}=Update", 223: _LOOK, 300: f"{_T}=Get", 303: _LOOK, 307: f"{_G}=Get", 308: f"{_G}=Get {_T}=Get",
    309: f"{_G}=Sub {_T}=Sub", 310: f"{_T}=Pub", 314: f"{_G}=Update {_T}=Update", 315: _OBSERVE, 317: _OBSERVE,
    320: f"{_T}=Pub", 321: _LOOK, 323: f"{_T}=Update", 328: _OBSERVE, 343: f"{_G}=Get", 345: f"{_G}=Get {_T}=Get",
    351: f"{_T}=Get", 352: f"{_G}=Get", 353: f"{_G}=Update {_T}=Update", 354: f"{_T}=Get", 355: _OBSERVE,
    370: f"{_T}=Pub", 901: _OBSERVE, 905: _GOVERN, 906: _GOVERN, 908: _GOVERN, 1008: _GOVERN,
    3001: _GOVERN, 3002: _GOVERN, 3003: _GOVERN, 3004: _OBSERVE, 3005: _OBSERVE,
    3006: _GOVERN, 3007: _GOVERN, 3008: _GOVERN, 3009: _OBSERVE, 3010: _OBSERVE,
    200050: _CONSUME, 200051: _CONSUME, 200052: _CONSUME, 200053: _CONSUME, 200054: _CONSUME, 200055: _LOOK,
}  # fmt: skip
MORE_THAN_JAVA = {314: f"{_G}=Get"}
"""What ours asks for besides that: copying a group's offsets reveals them."""

_MAKE = f"{_G}=Create|Update"
OURS: dict[int, str] = {
    18: f"{_T}=Create", 21: f"{_C}=Get|List", 22: f"{_C}=Get|List", 23: f"{_C}=Get|List", 25: _GOVERN, 26: _OBSERVE,
    27: _GOVERN, 28: _OBSERVE, 43: _OBSERVE, 45: _OBSERVE, 46: f"{_G}=Sub {_T}=Sub", 60: _OBSERVE, 61: _OBSERVE,
    200: _MAKE, 201: f"{_C}=Get|List", 225: _MAKE, 305: f"{_C}=Get|List", 306: _GOVERN, 316: _GOVERN,
    324: f"{_T}=Pub", 325: f"{_T}=Pub", 329: _GOVERN, 361: _CONSUME, 400: _CONSUME,
    401: f"{_G}=Create|Update {_T}=Create|Update", 402: _OBSERVE, 513: f"{_T}=Create", 907: _OBSERVE, 1007: _OBSERVE,
    2001: _GOVERN, 2002: _GOVERN, 2003: _OBSERVE, 2004: _GOVERN, 30001: _OBSERVE, 200056: _CONSUME,
    200151: f"{_G}=Sub {_T}=Sub",
}  # fmt: skip

SUPER = Credentials("root", "root-secret")
INTERNAL = Credentials("internal", "internal-secret")
UNSIGNED = Credentials("ruleless", "ruleless-secret")
FORGER = Credentials("root", "another-secret")
STRANGER = Credentials("stranger", "root-secret")
DISABLED = Credentials("disabled", "disabled-secret")
USER = Credentials("user", "user-secret")


def needs(code: int) -> list[Need]:
    """Return what ours asks for the sample under a code."""
    found = [_need(text) for text in (JAVA.get(code) or OURS[code]).split()]
    more = [_need(text) for text in MORE_THAN_JAVA.get(code, "").split()]
    return more + found


def _need(text: str) -> Need:
    resource, _, actions = text.partition("=")
    found = parse_resource(resource)
    assert found is not None
    return Need(found, tuple(filter(None, (by_name(Action, action) for action in actions.split("|")))))


def rule(resource: str, *actions: Action, source_ips: tuple[str, ...] = (), decision: str = "Allow") -> AccessRule:
    found = parse_resource(resource)
    assert found is not None
    return AccessRule(found, actions or (Action.ALL,), source_ips, AccessDecision(decision))


def acl(*rules: AccessRule, default: tuple[AccessRule, ...] = (), name: str = USER.access_key) -> Acl:
    policies = (Policy(PolicyType.CUSTOM, rules), Policy(PolicyType.DEFAULT, default))
    return Acl(f"User:{name}", tuple(policy for policy in policies if policy.rules))


def sample(code: int, credentials: Credentials | None, **fields: str) -> Command:
    """Return the sample under a code, signed."""
    return sign_command(Command(code, ext_fields=FIELDS | fields, body=BODY), credentials)


def peer(host: str = SOURCE) -> Any:
    return SimpleNamespace(remote=f"{host}:4711", counters=Counters())
