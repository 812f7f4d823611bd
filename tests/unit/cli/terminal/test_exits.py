"""Which error ends a command with which exit code."""

from errno import EADDRINUSE

from cases import each_case
from orbitmq.cli.terminal.exits import ExitCode, NameServerExit, exit_code_of, explain
from orbitmq.errors import (
    ConfigError,
    ConnectionFailed,
    InvalidArgument,
    NoNameServer,
    RemoteRefused,
    RequestTimeout,
    RouteNotFound,
    SendFailed,
    StoreError,
)

REFUSED = RemoteRefused(1, "no", "a:1")


@each_case(
    (NoNameServer("nobody"), ExitCode.UNREACHABLE),
    (ConnectionFailed("refused"), ExitCode.UNREACHABLE),
    (RequestTimeout("slow"), ExitCode.UNREACHABLE),
    (SendFailed("all failed", [ConnectionFailed("a"), RequestTimeout("b")]), ExitCode.UNREACHABLE),
    (SendFailed("one was refused", [ConnectionFailed("a"), REFUSED]), ExitCode.NO),
    (SendFailed("nothing is known"), ExitCode.NO),
    (RouteNotFound("no route"), ExitCode.NO),
    (REFUSED, ExitCode.NO),
    (StoreError("locked"), ExitCode.NO),
    (OSError("address in use"), ExitCode.NO),
    (InvalidArgument("topic", "a b", "no blanks"), ExitCode.USAGE),
    (ConfigError("listenPort", -1, "0 to 65535"), ExitCode.USAGE),
    (KeyboardInterrupt(), ExitCode.INTERRUPTED),
)
def test_exit_codes(error, code):
    assert exit_code_of(error) is code


def test_the_codes_are_those_of_the_page():
    assert [int(code) for code in ExitCode] == [0, 1, 2, 3, 4, 130]
    assert [int(code) for code in NameServerExit] == [1, 255]


def test_a_silent_cluster_says_how_to_ask_other_servers():
    assert explain(NoNameServer("nobody")) == "nobody. Others are named with -n or NAMESRV_ADDR"


def test_a_port_that_is_taken_leads_to_a_free_one():
    assert explain(OSError(EADDRINUSE, "taken")).endswith(
        "taken: of another `orbitmq up`, perhaps. With 0 as port a free one is chosen"
    )


def test_an_error_without_words_is_named():
    assert explain(TimeoutError()) == "TimeoutError"
