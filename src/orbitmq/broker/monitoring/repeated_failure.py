"""Failures that repeat: what keeps a service from going on, said once however often it is tried again."""

from __future__ import annotations

from logging import Logger


class RepeatedFailure:
    """The failure of something that is tried again and again.

    Args:
        log: of the room that fails.
        text: says what failed, and that it is tried again.
    """

    def __init__(self, log: Logger, text: str) -> None:
        self.text: str | None = None
        """How the last try failed; None when it did not."""
        self._log = log
        self._text = text

    def note(self, error: Exception | None) -> None:
        """Remember how a try ended, and log a failure that is not the last one again.

        Args:
            error: None when the try did not fail.
        """
        text = None if error is None else f"{type(error).__name__}: {error}"
        if text is not None and text != self.text:
            self._log.error("%s", self._text, exc_info=error)
        self.text = text
