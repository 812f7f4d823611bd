import pytest

from orbitmq.cli.access import Access, ask_each
from orbitmq.errors import ConfigError, ConnectionFailed, RemoteRefused


def test_every_name_server_is_asked_and_answers_come_in_the_order_of_the_list(capsys):
    async def ask(_pool, address):
        return address.upper()

    assert ask_each(Access("b:2;a:1", None, 3_000), ask) == ({"b:2": "B:2", "a:1": "A:1"}, {})
    assert capsys.readouterr().err == ""


def test_why_one_gave_no_answer_is_said(capsys):
    error = RemoteRefused(1, "no", "a:1")

    async def ask(_pool, address):
        if address == "a:1":
            raise error
        return 7

    assert ask_each(Access("a:1;b:2", None, 3_000), ask) == ({"b:2": 7}, {"a:1": error})
    assert capsys.readouterr().err == f"orbitmq: {error}\n"


def test_when_none_answers_the_first_error_is_raised_and_the_others_are_said(capsys):
    async def ask(_pool, address):
        raise ConnectionFailed(address)

    with pytest.raises(ConnectionFailed, match="a:1"):
        ask_each(Access("a:1;b:2", None, 3_000), ask)
    assert capsys.readouterr().err == "orbitmq: b:2\n"


def test_a_security_file_that_cannot_be_used_is_named(tmp_path):
    async def ask(_pool, address):
        return address

    with pytest.raises(ConfigError, match="missing"):
        ask_each(Access("a:1", tmp_path / "missing", 3_000), ask)
    with pytest.raises(ConfigError, match="missing"):
        Access("a:1", tmp_path / "missing", 3_000).admin()


def test_commands_sign_as_the_security_file_says(orbitmq, tmp_path, monkeypatch):
    seen = []

    class Noted:
        def __init__(self, name_servers, **settings):
            seen.append((name_servers, settings["timeout_ms"], settings["credentials"].access_key))

    monkeypatch.setattr("orbitmq.admin.AdminClient", Noted)
    file = tmp_path / "security"
    file.write_text("accessKey=me\nsecretKey=a secret\n")
    Access("a:1", file, 77).admin()
    assert seen == [("a:1", 77, "me")]
