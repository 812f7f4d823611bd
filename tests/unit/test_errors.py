"""Errors: one tree, and messages that name what was wrong."""

from __future__ import annotations

import re

from cases import each_case
from orbitmq import errors
from orbitmq.errors import (
    ClientError,
    ConfigError,
    ConnectionFailed,
    CorruptRecord,
    HeaderError,
    InvalidArgument,
    OrbitError,
    Rejected,
    RemoteRefused,
    SendFailed,
    StoreError,
    SyncFailed,
)


def test_every_error_belongs_to_the_tree_that_the_page_draws() -> None:
    classes = {name: value for name, value in vars(errors).items() if isinstance(value, type)}
    names = {"OrbitError", *re.findall(r"^[│ ]*[├└]── (\w+)", errors.__doc__ or "", re.M)}
    assert names == {name for name, value in classes.items() if issubclass(value, OrbitError)}


@each_case(
    (HeaderError, Rejected),
    (ConfigError, InvalidArgument),
    (InvalidArgument, ValueError),
    (CorruptRecord, StoreError),
    (RemoteRefused, ClientError),
    (SendFailed, ClientError),
)
def test_an_error_is_caught_with_its_kind(error: type[Exception], parent: type[Exception]) -> None:
    assert issubclass(error, parent)


def test_a_refusal_carries_the_code_and_the_remark_for_the_peer() -> None:
    refusal = Rejected(17, "no route")
    assert (refusal.code, refusal.remark, str(refusal)) == (17, "no route", "[17] no route")


def test_a_sync_that_failed_says_what_the_disk_said() -> None:
    error = SyncFailed(OSError(5, "Input/output error"))
    assert str(error) == "a sync failed: [Errno 5] Input/output error"
    assert error.error.errno == 5


def test_a_bad_header_is_a_system_error() -> None:
    assert (HeaderError("a field").code, HeaderError("a field").remark) == (1, "a field")


def test_a_value_out_of_range_names_field_value_and_what_is_allowed() -> None:
    error = InvalidArgument("port", 0, "1 to 65535")
    assert (error.field, error.value, error.allowed) == ("port", 0, "1 to 65535")
    assert str(error) == "port: 0 is not allowed, expected 1 to 65535"


@each_case((118, False), (119, True))
def test_a_long_value_is_cut_at_120_characters(length: int, is_cut: bool) -> None:
    shown = str(InvalidArgument("name", "x" * length, "less"))
    assert ("…" in shown) is is_cut
    assert shown.startswith("name: 'xxx")
    assert not is_cut or "… (121 characters) is not allowed" in shown


def test_a_corrupt_record_says_where_it_is() -> None:
    error = CorruptRecord(4096, "bad magic")
    assert (error.physical_offset, error.reason) == (4096, "bad magic")
    assert str(error) == "record at physical offset 4096: bad magic"


@each_case(("full", "full"), (None, "no remark"))
def test_a_refusal_from_afar_names_the_server(remark: str | None, shown: str) -> None:
    error = RemoteRefused(2, remark, "h:1")
    assert (error.code, error.remark, error.address) == (2, remark, "h:1")
    assert str(error) == f"h:1 answered code 2: {shown}"


@each_case(
    (1, "The broker does not support consumer to filter message by SQL92", True),
    (23, "parse the consumer's subscription failed", True),
    (1, "oh", False),
    (2, "busy", False),
    (27, "The broker's consumer filter data is not exist!", False),  # before the first heartbeat, too
)
def test_a_refusal_that_no_repetition_changes_is_final(code: int, remark: str, is_final: bool) -> None:
    refusal = RemoteRefused(code, remark, "h:1")
    assert refusal.is_final is is_final
    assert ("set enablePropertyFilter=true at the broker" in str(refusal)) is remark.endswith("SQL92")


def test_who_is_refused_for_want_of_credentials_hears_how_to_give_them() -> None:
    assert "--security FILE" in str(RemoteRefused(16, "username cannot be null.", "h:1"))


def test_a_broker_that_is_given_as_a_name_server_is_told():
    for code in (105, 106, 206):
        error = str(RemoteRefused(3, f" request type {code} not supported", "h:10911"))
        assert error == f"h:10911 answered code 3: request type {code} not supported: it is not a NameServer"
    assert "NameServer" not in str(RemoteRefused(3, " request type 11 not supported", "h:10911"))


def test_a_failed_send_keeps_the_error_of_each_attempt() -> None:
    causes = [ValueError("1"), ValueError("2")]
    assert SendFailed("two attempts", causes).causes == tuple(causes)
    assert SendFailed("none").causes == ()


def test_a_failed_connection_names_the_peer_and_the_reason_in_words():
    assert str(ConnectionFailed("10.0.0.1:9878", "no controller leads")) == "10.0.0.1:9878: no controller leads"
