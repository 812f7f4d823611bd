"""Numbers on the wire are upstream's. Request codes are compared with docs/compatibility.md by test_coverage_of_codes.py."""

from __future__ import annotations

from cases import each_case
from orbitmq.codes import LanguageCode, RequestCode, ResponseCode, Version, version_name

RESPONSES = {
    0: "SUCCESS", 1: "SYSTEM_ERROR", 2: "SYSTEM_BUSY", 3: "REQUEST_CODE_NOT_SUPPORTED", 4: "TRANSACTION_FAILED",
    10: "FLUSH_DISK_TIMEOUT", 11: "SLAVE_NOT_AVAILABLE", 12: "FLUSH_SLAVE_TIMEOUT", 13: "MESSAGE_ILLEGAL",
    14: "SERVICE_NOT_AVAILABLE", 15: "VERSION_NOT_SUPPORTED", 16: "NO_PERMISSION", 17: "TOPIC_NOT_EXIST",
    18: "TOPIC_EXIST_ALREADY", 19: "PULL_NOT_FOUND", 20: "PULL_RETRY_IMMEDIATELY", 21: "PULL_OFFSET_MOVED",
    22: "QUERY_NOT_FOUND", 23: "SUBSCRIPTION_PARSE_FAILED", 24: "SUBSCRIPTION_NOT_EXIST",
    25: "SUBSCRIPTION_NOT_LATEST", 26: "SUBSCRIPTION_GROUP_NOT_EXIST", 27: "FILTER_DATA_NOT_EXIST",
    29: "INVALID_PARAMETER", 204: "NO_BUYER_ID", 205: "NOT_IN_CURRENT_UNIT", 206: "CONSUMER_NOT_ONLINE", 207: "CONSUME_MSG_TIMEOUT", 208: "NO_MESSAGE",
    209: "POLLING_FULL", 210: "POLLING_TIMEOUT", 215: "FLOW_CONTROL", 501: "NOT_LEADER_FOR_QUEUE", 604: "ILLEGAL_OPERATION", 1500: "GO_AWAY",
    2000: "CONTROLLER_FENCED_MASTER_EPOCH", 2001: "CONTROLLER_FENCED_SYNC_STATE_SET_EPOCH", 2002: "CONTROLLER_INVALID_MASTER",
    2003: "CONTROLLER_INVALID_REPLICAS", 2004: "CONTROLLER_MASTER_NOT_AVAILABLE", 2005: "CONTROLLER_INVALID_REQUEST",
    2006: "CONTROLLER_BROKER_NOT_ALIVE", 2007: "CONTROLLER_NOT_LEADER", 2008: "CONTROLLER_BROKER_METADATA_NOT_EXIST",
    2009: "CONTROLLER_INVALID_CLEAN_BROKER_METADATA", 2010: "CONTROLLER_BROKER_NEED_TO_BE_REGISTERED",
    2011: "CONTROLLER_MASTER_STILL_EXIST", 2012: "CONTROLLER_ELECT_MASTER_FAILED",
    2013: "CONTROLLER_ALTER_SYNC_STATE_SET_FAILED", 2014: "CONTROLLER_BROKER_ID_INVALID",
}  # fmt: skip
"""Java: ResponseCode, RemotingSysResponseCode."""
LANGUAGES = (
    "JAVA", "CPP", "DOTNET", "PYTHON", "DELPHI", "ERLANG", "RUBY", "OTHER", "HTTP", "GO", "PHP", "OMS", "RUST", "NODE_JS",
)  # fmt: skip
"""Java: LanguageCode, in the order of its numbers."""


def test_response_codes_are_javas() -> None:
    assert {code.value: code.name for code in ResponseCode} == RESPONSES


def test_languages_are_javas() -> None:
    assert tuple(LanguageCode(number).name for number in range(len(LANGUAGES))) == LANGUAGES
    assert len(LanguageCode) == len(LANGUAGES)


def test_versions_are_javas_ordinals() -> None:
    versions = (Version.V3_0_11, Version.V4_9_4, Version.V5_0_0, Version.V5_3_1, Version.V5_3_3)
    assert versions == (37, 401, 413, 475, 479)


def test_our_own_requests_are_far_from_all_of_upstreams() -> None:
    own = [code for code in RequestCode if code.name.startswith("ORBITMQ_")]
    assert [code.value for code in own] == [30001, 30002, 30003, 30004]
    assert not [code for code in set(RequestCode) - set(own) if 10_000 <= code < 200_000]


@each_case(
    (0, "0"), (193, "193"), (194, "V3_9_1_SNAPSHOT"), (195, "V3_9_1"), (401, "V4_9_4"), (412, "V5_0_0_SNAPSHOT"),
    (413, "V5_0_0"), (431, "V5_0_9"), (475, "V5_3_1"), (479, "V5_3_3"), (513, "V5_5_0"), (28, "V3_0_7_SNAPSHOT"), (611, "V5_9_9"), (612, "HIGHER_VERSION"),
    (2**31 - 1, "HIGHER_VERSION"), (-1, "-1"),
)  # fmt: skip
def test_versions_are_shown_as_java_shows_them(ordinal: int, name: str) -> None:
    """Java: MQVersion.getVersionDesc; names before 3.9 follow no rule, and no such client is about."""
    assert version_name(ordinal) == name
