"""Claims about addresses as text."""

from __future__ import annotations

import pytest

from cases import each_case
from orbitmq.address import format_address, format_peer, parse_address, parse_name_servers
from orbitmq.errors import InvalidArgument


@each_case(
    ("a:1", ("a", 1)),
    (" 10.0.0.1:9876 ", ("10.0.0.1", 9876)),
    ("[::1]:0", ("::1", 0)),
    ("h:65535", ("h", 65535)),
    ("h.:1", ("h.", 1)),
    ("bücher.example:1", ("bücher.example", 1)),
)
def test_an_address_is_host_and_port(text: str, parsed: tuple[str, int]):
    assert parse_address(text) == parsed
    assert parse_address(format_address(*parsed)) == parsed


@each_case(
    "",
    "host",
    "host:",
    ":1",
    "h:65536",
    "h:-1",
    "h:x",
    "h:1²",
    "a..b:1",
    f"{'l' * 64}:1",
    "\udcff:1",
    "h:" + "9" * 5000,
)
def test_anything_else_is_refused_by_name(text: str):
    with pytest.raises(InvalidArgument, match="address"):
        parse_address(text)


def test_a_peer_that_is_gone_has_a_name_too():
    assert format_peer(None) == format_peer(()) == format_peer(("h",)) == format_peer("h:5") == "unknown:0"
    assert format_peer(("h", 5)) == "h:5"
    assert format_peer(("::1", 5, 0, 0)) == "[::1]:5"
    assert format_peer(("::ffff:10.0.0.1", 5, 0, 0)) == "10.0.0.1:5", "an IPv4 peer of a socket of both families"


@each_case(
    ("a:1;b:2", ("a:1", "b:2")),
    (" a:1, b:2 ;", ("a:1", "b:2")),
    (["a:1", "b:2;a:1"], ("a:1", "b:2")),
    ("a", ("a:9876",)),
    ("127.0.0.1", ("127.0.0.1:9876",)),
    ("::1", ("[::1]:9876",)),
    ("[::1]", ("[::1]:9876",)),
    ("[::1]:7", ("[::1]:7",)),
)
def test_name_servers_are_read_from_text_or_lists(text: str | list[str], addresses: tuple[str, ...]):
    assert parse_name_servers(text) == addresses


@each_case("", [], ";", "a:0", "a:65536", "a:x", ":1", "http://a:1", "a:1/b")
def test_what_is_no_name_server_is_named(text: str | list[str]):
    with pytest.raises(InvalidArgument, match="host:port"):
        parse_name_servers(text)
