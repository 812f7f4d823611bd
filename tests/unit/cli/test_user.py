"""`orbitmq user`."""

import pytest

from orbitmq.cli.main import main


@pytest.fixture
def secret(tmp_path):
    path = tmp_path / "password"
    path.write_text("hunter2\nnot this\n")
    return path


def test_a_user_comes_changes_and_goes(orbitmq, secret):
    assert orbitmq("user", "create", "cli-anna", "--password-file", secret).rows == [["cli-anna", "broker-a"]]
    assert orbitmq("user", "list", "--filter", "cli-anna").rows == [["broker-a", "cli-anna", "Normal", "enable"]]
    assert orbitmq("user", "update", "cli-anna", "--disable", "--super").code == 0
    listed = orbitmq("user", "list", "--filter", "cli-anna", "-o", "json")
    assert listed.json == [{"broker": "broker-a", "user": "cli-anna", "type": "Super", "status": "disable"}]
    assert orbitmq("user", "update", "cli-anna", "--enable", "--normal", "--broker", "broker-a").code == 0
    assert orbitmq("user", "delete", "--yes", "cli-anna").code == 0
    assert orbitmq("user", "list", "--filter", "cli-anna").rows == []


def test_a_password_is_the_first_line_of_a_file_and_is_never_printed(orbitmq, secret, rocketmq_session):
    made = orbitmq("user", "create", "cli-ben", "--password-file", secret)
    listed = orbitmq("user", "list", "-o", "json")
    assert "hunter2" not in made.out + made.err + listed.out
    kept = (rocketmq_session.data_dir / "broker-a" / "config" / "auth.json").read_text()
    assert '"hunter2"' in kept
    orbitmq("user", "delete", "--yes", "cli-ben")


def test_what_is_missing_or_refused_is_said(orbitmq, secret, tmp_path):
    assert orbitmq("user", "create", "cli-x").code == 2
    assert orbitmq("user", "update", "cli-x").code == 2
    assert orbitmq("user", "create", "cli-x", "--password-file", tmp_path / "nothing").code != 0
    refused = orbitmq("user", "update", "cli-x", "--disable")
    assert (refused.code, "The user is not exist" in refused.err) == (1, True)
    nowhere = orbitmq("user", "list", "--broker", "nosuch")
    assert nowhere.code == 2
    assert "broker-a" in nowhere.err
    assert main(["user", "--help"]) == 0


def test_a_user_that_is_not_there_is_not_said_to_be_deleted(orbitmq):
    missed = orbitmq("user", "delete", "--yes", "cli-nobody")
    assert (missed.code, missed.out) == (1, "")
    assert "no broker has a user cli-nobody: nothing was deleted" in missed.err


def test_who_deletes_himself_has_to_mean_it(orbitmq, secret, tmp_path):
    security = tmp_path / "security.conf"
    security.write_text("accessKey=cli-dora\nsecretKey=hunter2\n")
    security.chmod(0o600)
    assert orbitmq("user", "create", "cli-dora", "--password-file", secret).code == 0
    asked = orbitmq("user", "delete", "cli-dora", "--security", security)
    assert (asked.code, "cli-dora, which signs this command, and its rules: --yes does it" in asked.err) == (2, True)
    assert orbitmq("user", "list", "--filter", "cli-dora").rows
    assert orbitmq("user", "delete", "cli-dora", "--security", security, "--yes").code == 0
    assert orbitmq("user", "list", "--filter", "cli-dora").rows == []
