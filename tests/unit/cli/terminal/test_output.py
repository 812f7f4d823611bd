"""Options that many commands have, and output that is safe to print."""

from __future__ import annotations

import io
import json
import re

import pytest

from cases import each_case
from orbitmq.cli.terminal.output import Format, format_cell, format_plain, format_time, show_json, show_rows
from orbitmq.cli.terminal.printable import printable

ROWS = [
    {"broker": "broker-a", "queue": 0, "messages": 12, "updated": None},
    {"broker": "b", "queue": 11, "messages": 3, "updated": "now", "hidden": True},
]
COLUMNS = ("broker", "queue", "messages", "updated")


class Terminal(io.StringIO):
    def isatty(self):
        return True


def show_on_terminal(monkeypatch, show):
    """Call `show` with a terminal for its stdout; return what stands on the screen."""
    screen = Terminal()
    with monkeypatch.context() as patch:
        patch.setattr("sys.stdout", screen)
        patch.setenv("COLUMNS", "80")
        show()
    return screen.getvalue()


def test_plain_columns_line_up_and_keep_every_value_whole():
    assert format_plain(ROWS, COLUMNS) == (
        "BROKER    QUEUE  MESSAGES  UPDATED\nbroker-a  0      12        -\nb         11     3         now\n"
    )


def test_a_column_of_two_words_stays_one_word_for_awk_and_not_for_people(monkeypatch):
    assert format_plain([], ("max_offset",)) == "MAX_OFFSET\n"
    rows = [{"max_offset": 1}]
    assert "max offset" in show_on_terminal(monkeypatch, lambda: show_rows(rows, ("max_offset",), Format.TABLE))


def test_rows_in_a_pipe_are_plain(capsys):
    show_rows(ROWS, COLUMNS, Format.TABLE)
    assert capsys.readouterr().out == format_plain(ROWS, COLUMNS)


def test_json_holds_every_field_and_stands_on_one_line(capsys):
    show_rows(ROWS, COLUMNS, Format.JSON)
    out = capsys.readouterr().out
    assert json.loads(out) == ROWS
    assert out.count("\n") == 1


def test_json_is_indented_on_a_terminal(monkeypatch):
    assert show_on_terminal(monkeypatch, lambda: show_json({"a": 1})) == '{\n  "a": 1\n}\n'


def test_json_lines_stay_lines_on_a_terminal(monkeypatch):
    assert show_on_terminal(monkeypatch, lambda: show_json({"a": 1}, is_line=True)) == '{"a":1}\n'


def test_a_table_on_a_terminal_shows_every_cell_and_right_aligns_numbers(monkeypatch):
    lines = show_on_terminal(monkeypatch, lambda: show_rows(ROWS, COLUMNS, Format.TABLE)).splitlines()
    assert "broker-a" in lines[1]
    assert lines[1].index("12") + 2 == lines[2].index("3") + 1


def test_a_table_on_a_terminal_stands_two_blanks_apart_without_lines(monkeypatch):
    screen = show_on_terminal(monkeypatch, lambda: show_rows(ROWS, ("broker", "messages", "updated"), Format.TABLE))
    assert [line.rstrip() for line in re.sub(r"\x1b\[[0-9;]*m", "", screen).splitlines()] == [
        "broker    messages  updated",
        "broker-a        12  -",
        "b                3  now",
    ]


def test_a_table_folds_a_long_value_instead_of_cutting_it(monkeypatch):
    long = "x" * 200
    screen = show_on_terminal(monkeypatch, lambda: show_rows([{"a": long}], ("a",), Format.TABLE))
    assert screen.count("x") == 200


def test_markup_in_a_value_is_printed_as_it_is(monkeypatch):
    screen = show_on_terminal(monkeypatch, lambda: show_rows([{"a": "[bold]x[/bold]"}], ("a",), Format.TABLE))
    assert "[bold]x[/bold]" in screen


@each_case((None, "-"), ("", "-"), (0, "0"), (True, "yes"), (False, "no"), (1.5, "1.5"), ("a\x1b[2J", r"a\x1b[2J"))
def test_cells(value, text):
    assert format_cell(value) == text


@each_case(
    (0, None),
    (None, None),
    (-1, None),
    (1, "1970-01-01T00:00:00.001Z"),
    (1_700_000_000_123, "2023-11-14T22:13:20.123Z"),
)
def test_times_are_iso_in_utc_and_unknown_ones_nothing(time_ms, text):
    assert format_time(time_ms) == text


@each_case(
    ("plain text", "plain text"),
    ("über 漢字", "über 漢字"),
    ("\x1b[31m\n\t", r"\x1b[31m\x0a\x09"),
    ("\u202e\U000e0001", r"\u202e\U000e0001"),
    ("\ud800", r"\ud800"),
    (b"ok \xff", r"ok \xff"),
    (memoryview(b"view"), "view"),
)
def test_whatever_is_not_visible_is_escaped(text: str | bytes | memoryview, shown: str) -> None:
    assert printable(text) == shown


@each_case(
    ("a b", "a b"), ("a  b", r"a \x20b"), (" a ", r"\x20a\x20"), ("   ", r"\x20\x20\x20"), ("a \n b", r"a \x0a b")
)
def test_two_blanks_stand_between_cells_alone(text: str, shown: str) -> None:
    assert printable(text, is_cell=True) == shown


def test_the_name_servers_are_those_of_the_option_or_else_of_the_environment(orbitmq, monkeypatch):
    assert "127.0.0.1:1" in orbitmq("topic", "list", "-n", "127.0.0.1:1").err
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2")
    assert "127.0.0.1:2" in orbitmq("topic", "list").err
    monkeypatch.delenv("NAMESRV_ADDR")
    monkeypatch.setattr("orbitmq.cli.access.Access.admin", name_servers_only)
    assert orbitmq("topic", "list").err == "orbitmq: asked 127.0.0.1:9876\n"


def name_servers_only(access):
    raise OSError(f"asked {access.name_servers}")


@pytest.mark.parametrize(
    "words", [("topic", "list"), ("topic", "show"), ("route", "compare"), ("send",), ("cluster",), ("health",)]
)
def test_a_request_has_three_seconds_unless_told_otherwise(orbitmq, words):
    help_text = orbitmq(*words, "--help").out
    assert "[default: 3000" in help_text[help_text.index("--timeout-ms") :]


def test_a_time_out_is_at_least_a_millisecond(orbitmq):
    assert orbitmq("topic", "list", "--timeout-ms", 0).code == 2


@pytest.mark.parametrize("name", ["--security", "ORBITMQ_SECURITY"])
def test_the_security_file_is_that_of_the_option_or_of_the_environment(orbitmq, monkeypatch, name):
    words = ("--security", "missing") if name.startswith("--") else ()
    if not words:
        monkeypatch.setenv(name, "missing")
    result = orbitmq("topic", "list", *words)
    assert result.code == 2
    assert "missing" in result.err
