"""The progress of long work, on a terminal and elsewhere."""

from __future__ import annotations

import sys

import pytest

from orbitmq.cli.terminal.progress import ProgressBar, show_counts, show_progress

MIB = 1 << 20


def test_a_line_is_written_now_and_then(capsys: pytest.CaptureFixture[str]) -> None:
    now_s = 0.0
    progress = ProgressBar("checking", clock=lambda: now_s)
    progress.expect(100 * MIB)
    for second in range(25):
        now_s = float(second)
        progress.advance(2 * MIB)
    assert capsys.readouterr().err.splitlines() == ["checking: 22 of 100 MiB", "checking: 42 of 100 MiB"]


def test_a_bar_is_drawn_every_mebibyte() -> None:
    drawn: list[tuple[int, int]] = []
    progress = ProgressBar("checking", lambda done, total: drawn.append((done, total)))
    progress.expect(3 * MIB)
    for _ in range(6):
        progress.advance(MIB // 2)
    assert drawn == [(MIB, 3 * MIB), (2 * MIB, 3 * MIB), (3 * MIB, 3 * MIB)]


@pytest.mark.parametrize("is_terminal", [True, False])
def test_an_interruption_ends_the_bar(is_terminal: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys.stderr, "isatty", lambda: is_terminal, raising=False)

    def work() -> None:
        with show_progress("checking") as progress:
            progress.expect(2 * MIB)
            progress.advance(2 * MIB)
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        work()


def test_counts_are_shown_on_a_terminal_alone(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "100")
    for is_terminal in (False, True):
        monkeypatch.setattr(sys.stderr, "isatty", lambda is_terminal=is_terminal: is_terminal, raising=False)
        with show_counts("sending messages") as progress:
            for done in range(1, 251):
                progress(done, 250)
        assert ("250/250" in capsys.readouterr().err) is is_terminal
