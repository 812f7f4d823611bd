from __future__ import annotations

import pytest
import typer

from orbitmq.cli.terminal.checks import show_checks
from orbitmq.cli.terminal.output import Format
from orbitmq.model.check_result import CheckResult

GOOD, BAD = CheckResult(True, "rows agree"), CheckResult(False, "offsets agree")


def test_a_check_says_ok_or_failed(capsys):
    with pytest.raises(typer.Exit) as raised:
        show_checks("lag", [GOOD, BAD], Format.TABLE)
    assert raised.value.exit_code == 1
    told = capsys.readouterr()
    assert told.out == "  ok      rows agree\n  FAILED  offsets agree\n"
    assert told.err == "1 of 2 checks FAILED\n"


def test_programs_get_one_document(capsys):
    show_checks("lag", [GOOD], Format.JSON)
    told = capsys.readouterr()
    assert told.out == '{"job":"lag","checks":[{"holds":true,"claim":"rows agree"}]}\n'
    assert told.err == "all 1 checks hold\n"
