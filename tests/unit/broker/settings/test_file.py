"""The text of a settings file with changes in it."""

from __future__ import annotations

import javaproperties
import pytest

from orbitmq.broker.settings.file import changed_text


@pytest.mark.parametrize(
    ("text", "changes", "expected"),
    [
        ("", {"a": "1"}, "a=1\n"),
        ("a=0\n# b\nb : 2\n", {"b": "3"}, "a=0\n# b\nb=3\n"),
        ("a=0", {"b": "3"}, "a=0\nb=3\n"),
        ("a=0\na=1\n", {"a": "2"}, "a=2\na=2\n"),
        ("ab=0\n", {"a": "2"}, "ab=0\na=2\n"),
        ("a=0\r\nb=1\r\n", {"a": "2"}, "a=2\nb=1\n"),
        ("c=x\\\na=0\n", {"a": "2"}, "c=x\\\na=0\n\na=2\n"),
        ("a=x\\\n  y\nb=1\n", {"a": "2"}, "a=x\\\n  y\nb=1\n\na=2\n"),
        ("a 0\n", {"a": "2"}, "a 0\na=2\n"),
    ],
)
def test_lines_of_changed_keys_are_written_anew_and_no_others(
    text: str, changes: dict[str, str], expected: str
) -> None:
    changed = changed_text(text, changes)
    assert changed == expected
    assert javaproperties.loads(changed) == javaproperties.loads(text) | changes


def test_what_is_no_settings_file_is_not_touched() -> None:
    with pytest.raises(OSError, match="no properties file"):
        changed_text("a=\\u12", {"a": "1"})
