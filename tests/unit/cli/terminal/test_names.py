"""Topics and groups whose names are completed, or nearly right."""

import pytest

from orbitmq.cli.terminal import confirm
from unit.cli.test_group import read_all


@pytest.fixture
def completed(orbitmq, monkeypatch):
    """Return a function that completes a command line as bash does."""

    def complete(*words):
        monkeypatch.setenv("_ORBITMQ_COMPLETE", "complete_bash")
        monkeypatch.setenv("COMP_WORDS", " ".join(("orbitmq", *words)))
        monkeypatch.setenv("COMP_CWORD", str(len(words)))
        return orbitmq().out.split()

    return complete


def test_topics_and_groups_are_completed_and_silent_servers_say_nothing(orbitmq, topic, completed):
    read_all(orbitmq, topic)
    for words in (("topic", "show"), ("send",), ("group", "lag")):
        assert topic in completed(*words, topic[:-1]), words
    assert completed("topic", "show", "%RETRY") == []
    assert completed("topic", "show", "-n", "127.0.0.1:1", topic[:-1]) == []


@pytest.mark.parametrize("words", [("topic", "show"), ("topic", "delete"), ("group", "show")])
def test_a_name_that_is_nearly_right_leads_to_the_one_that_was_meant(orbitmq, topic, words):
    read_all(orbitmq, topic)
    missed = orbitmq(*words, f"{topic[:-1]}_")
    assert missed.code == 1
    assert f"Did you mean {topic}?" in missed.err


def test_a_topic_of_nearly_the_same_name_as_another_is_made_after_a_question(orbitmq, topic, monkeypatch):
    asked = []
    monkeypatch.setattr(confirm, "is_terminal", lambda: True)
    monkeypatch.setattr("orbitmq.cli.messages.send.is_terminal", lambda: True)
    monkeypatch.setattr("typer.confirm", lambda text, **_: asked.append(text))
    assert orbitmq("send", topic, "x").code == 0
    assert orbitmq("send", f"{topic}s", "x").code == 1
    assert asked == [f"Make the topic {topic}s, although there is {topic}?"]
    assert orbitmq("topic", "show", f"{topic}s").code == 1
