from __future__ import annotations

import sys

import pytest

from orbitmq.cli.terminal.output import Format
from orbitmq.spark.jobs.cluster import Cluster


@pytest.fixture
def asked(asked, monkeypatch, tmp_path):
    """Type the command in a directory with a module of fixes."""
    (tmp_path / "fixes_of_the_command.py").write_text("def repair(body, properties):\n    return body * 2\n")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", sys.path.copy())
    monkeypatch.setattr(sys, "modules", sys.modules.copy())
    return asked


FIX = ("--fix", "fixes_of_the_command:repair")


def test_a_group_is_inspected_without_a_directory(orbitmq, asked, rocketmq_session):
    assert orbitmq("job", "dead-letters", "billing", "--inspect", "-o", "json").code == 0
    assert asked[0] == (Cluster(rocketmq_session.name_servers), "billing", "screen")
    assert asked[1][:3] == ("dead-letters", "local[*,2]", Format.JSON)


def test_options_become_a_plan_and_the_function_is_found_where_the_command_is_typed(orbitmq, asked, tmp_path):
    words = (*FIX, "--quarantine", "q", "--rate", 7, "--rows-per-checkpoint", 9, "--quarantine-gone")
    assert orbitmq("job", "dead-letters", "billing", tmp_path / "a" / ".." / "b", *words).code == 0
    plan = asked[0][1]
    assert (plan.group, plan.fix_name, plan.quarantine) == ("billing", "fixes_of_the_command:repair", "q")
    assert (plan.directory, plan.rate, plan.rows_per_checkpoint) == (tmp_path / "b", 7, 9)
    assert plan.quarantines_gone
    assert plan.fix(b"a", {}) == b"aa"


@pytest.mark.parametrize(
    "words",
    [
        (),
        ("d",),
        ("--inspect", *FIX),
        FIX,
        ("d", *FIX),
        (*FIX, "--quarantine", "q"),
        ("d", "--fix", "no_such_module_at_all:repair", "--quarantine", "q"),
    ],
    ids=["nothing", "a directory", "both", "only a function", "no quarantine", "no directory", "no module"],
)
def test_half_an_order_is_refused_before_spark_starts(orbitmq, asked, words):
    assert orbitmq("job", "dead-letters", "billing", *words).code == 2
    assert not asked
