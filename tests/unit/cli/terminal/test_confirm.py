"""Questions before something is deleted."""

import sys
from types import SimpleNamespace

import pytest
import typer

from orbitmq.cli.terminal import confirm as confirm_module
from orbitmq.cli.terminal.confirm import confirm, counted


@pytest.mark.parametrize(("answer", "code"), [(True, None), (False, 1)])
def test_a_terminal_is_asked(monkeypatch, answer, code):
    asked: list[str] = []

    def ask(text: str, **_: object) -> bool:
        asked.append(text)
        return answer

    terminal = SimpleNamespace(isatty=lambda: True)
    monkeypatch.setattr(sys, "stdin", terminal)
    monkeypatch.setattr(sys, "stderr", terminal)
    monkeypatch.setattr(typer, "confirm", ask)
    monkeypatch.setattr(confirm_module, "say", asked.append)
    if code is None:
        confirm("delete it", yes=False)
    else:
        with pytest.raises(typer.Exit) as ended:
            confirm("delete it", yes=False)
        assert (ended.value.exit_code, asked.pop()) == (code, "nothing was done")
    assert asked == ["Delete it?"]


def test_a_number_has_its_noun():
    assert [counted(0, "queue"), counted(1, "queue"), counted(2, "query", "queries")] == [
        "0 queues",
        "1 queue",
        "2 queries",
    ]
