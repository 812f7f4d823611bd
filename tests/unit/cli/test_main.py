"""The command as a whole."""

import subprocess
import sys

import pytest

from orbitmq.cli.main import COMMANDS, OTHER_WORDS, SECTIONS, main

pytestmark = pytest.mark.real

HEAVY = (
    "asyncio",
    "orjson",
    "pyspark",
    "rich.table",
    "structlog",
    "uvloop",
    "orbitmq.store",
    "orbitmq.net.connection.connection",
)


def test_without_arguments_it_says_what_there_is(orbitmq):
    result = orbitmq()
    for command in ("up", "nameserver", "broker", "topic", "route", "send", "consume", "cluster", "health"):
        assert f"  {command} " in result.out + result.err
    assert "Exit codes: 0 done" in result.out + result.err


@pytest.mark.parametrize(
    "command", ["up", "nameserver", "broker", "topic", "route", "send", "consume", "cluster", "health"]
)
def test_every_command_explains_itself(orbitmq, command):
    result = orbitmq(command, "--help")
    assert result.code == 0
    assert result.out.startswith(f"Usage: orbitmq {command}")


def test_the_version_is_the_packages(orbitmq):
    from importlib.metadata import version

    assert orbitmq("--version").out == f"orbitmq {version('orbitmq')}\n"


def test_the_words_are_those_of_the_command_line_where_none_are_given(monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["orbitmq", "topic", "--help"])
    assert main() == 0
    assert capsys.readouterr().out.startswith("Usage: orbitmq topic ")


def test_an_unknown_command_is_a_usage_error(orbitmq):
    assert orbitmq("topix").code == 2


def test_help_has_every_command_in_a_section(orbitmq):
    help_text = orbitmq("--help").out
    for title, names in SECTIONS.items():
        section = help_text.partition(f"{title}:\n")[2].partition("\n\n")[0]
        assert [line.split()[0] for line in section.splitlines()] == [*names], title


def test_help_imports_nothing_heavy():
    code = "import sys, orbitmq.cli.main as main; main.make_app(); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert [name for name in loaded if name in HEAVY] == []


@pytest.mark.parametrize(
    ("word", "ours"), [("produce", "send"), ("sub", "consume"), ("topics", "topic list"), ("brokers", "cluster")]
)
def test_words_of_other_tools_lead_to_the_command(orbitmq, word, ours):
    result = orbitmq(word)
    assert result.code == 2
    assert f"No such command '{word}': it is `orbitmq {ours}` here." in result.err


def test_every_command_that_another_word_leads_to_exists(orbitmq):
    for ours in set(OTHER_WORDS.values()):
        assert orbitmq(*ours.split(), "--help").code == 0, ours
    assert not OTHER_WORDS.keys() & COMMANDS.keys()
