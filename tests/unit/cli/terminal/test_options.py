import pytest


def test_the_name_servers_are_those_of_the_option_or_else_of_the_environment(orbitmq, monkeypatch):
    assert "127.0.0.1:1" in orbitmq("topic", "list", "-n", "127.0.0.1:1").err
    monkeypatch.setenv("NAMESRV_ADDR", "127.0.0.1:2")
    assert "127.0.0.1:2" in orbitmq("topic", "list").err
    monkeypatch.delenv("NAMESRV_ADDR")
    monkeypatch.setattr("orbitmq.cli.topic.admin_client", name_servers_only)
    assert orbitmq("topic", "list").err == "orbitmq: asked 127.0.0.1:9876\n"


def name_servers_only(name_servers, *_):
    raise OSError(f"asked {name_servers}")


@pytest.mark.parametrize(
    "words", [("topic", "list"), ("topic", "status"), ("route", "compare"), ("send",), ("cluster",), ("health",)]
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
