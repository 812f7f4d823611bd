"""Command lines of mqadmin, and the table of its subcommands."""

from __future__ import annotations

from importlib import import_module

import pytest

from cases import each_case
from orbitmq.cli.mqadmin.parsing import Given, parse
from orbitmq.cli.mqadmin.result import java_object, table
from orbitmq.cli.mqadmin.table import SUBCOMMANDS
from orbitmq.errors import InvalidArgument

STATUS = SUBCOMMANDS["topicStatus"]


@each_case(
    ["-t", "orders", "-c", "east"],
    ["--topic", "orders", "--cluster", "east"],
    ["--topic=orders", "--cluster=east"],
    ["-torders", "-ceast"],
    ["-topic", "orders", "-c=east"],
)
def test_an_option_is_read_in_every_form_that_java_reads(words: list[str]) -> None:
    given = parse(STATUS, words)
    assert (given.text("topic"), given.text("cluster")) == ("orders", "east")
    assert "namesrvAddr" not in given


def test_every_subcommand_takes_name_servers_and_help() -> None:
    assert parse(STATUS, ["-n", "a:1;b:2", "-t", "x"]).text("namesrvAddr") == "a:1;b:2"
    assert "help" in parse(STATUS, ["-h"])  # which needs no topic


@each_case(
    ([], "topicStatus needs -t <topic>"),
    (["-t"], "--topic: '' is not allowed, expected a value"),
    (["-t", "x", "-z"], "'-z' is not allowed, expected one of its options: -t <topic> [-c <cluster>]"),
    (["orders"], "'orders' is not allowed"),
)
def test_what_is_wrong_with_a_command_line_is_said(words: list[str], said: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        parse(STATUS, words)
    assert said in str(refused.value)


def test_one_of_two_options_has_to_be_given() -> None:
    with pytest.raises(InvalidArgument, match="--brokerAddr or --clusterName"):
        parse(SUBCOMMANDS["updateTopic"], ["-t", "orders"])
    assert "brokerAddr" in parse(SUBCOMMANDS["updateTopic"], ["-t", "orders", "-b", "a:1"])


def test_values_are_numbers_and_flags() -> None:
    given = Given({"a": "7", "b": " true ", "c": "x", "d": "False"})
    assert (given.number("a", 1), given.number("none", 1)) == (7, 1)
    assert (given.flag("b"), given.flag("d", True), given.flag("none", True)) == (True, False, True)
    with pytest.raises(InvalidArgument, match="--c: 'x' is not allowed, expected a whole number"):
        given.number("c", 1)


def test_cells_are_aligned_as_java_aligns_them_and_never_cut() -> None:
    assert table("%-4s  %4s  %-1s", "#A|#B|#C", [("a", "b", "long")]) == ["#A      #B  #C", "a        b  long"]


def test_objects_are_written_as_java_writes_them() -> None:
    said = java_object("Sent", ok=True, id=None, tags=("a", "b"), properties={"k": "v"})
    assert said == "Sent [ok=true, id=null, tags=[a, b], properties={k=v}]"


def test_every_subcommand_has_a_function_or_a_reason() -> None:
    for name, one in SUBCOMMANDS.items():
        assert one.name == name
        assert one.summary.endswith("."), name
        longs = [option.long for option in one.options]
        assert len(set(longs)) == len(longs), name
        if not one.family:
            assert one.reason, name
        else:
            module = import_module(f"orbitmq.cli.mqadmin.{one.family}")
            assert callable(getattr(module, one.function)), name
