"""Claims about the file of users and rules: what is kept comes again, and no other user reads it."""

from __future__ import annotations

import json
import logging
import os
from pathlib import Path

import pytest

from cases import each_case
from orbitmq.broker.access.directory import EMPTY, add_rules, create_user, draft_of
from orbitmq.broker.access.directory_file import DirectoryFile, format_directory, parse_directory
from orbitmq.errors import HeaderError, StoreError
from orbitmq.model.access import Action, UserStatus, UserType
from orbitmq.wire.bodies.access import UserChange

from .samples import acl, rule


def directory():
    found = create_user(EMPTY, "anna", UserChange("größe 🙂", UserType.SUPER, UserStatus.DISABLE))
    found = create_user(found, "ben", UserChange("pw"))
    rules = acl(rule("Topic:a*", Action.PUB, source_ips=("10.0.0.0/8",)), rule("*", decision="Deny"),
                default=(rule("Group:*"),), name="ben")  # fmt: skip
    return add_rules(found, None, draft_of(rules))


def mode(path: Path) -> int:
    return path.stat().st_mode & 0o777


def test_what_was_saved_is_loaded(tmp_path: Path):
    file = DirectoryFile(tmp_path / "config" / "auth.json")
    assert file.load() == EMPTY
    file.save(directory())
    assert file.load() == directory()


def test_the_file_and_what_was_in_its_place_are_the_owners_alone(tmp_path: Path):
    file = DirectoryFile(tmp_path / "auth.json")
    left = tmp_path / "auth.json.tmp"
    left.write_text("what a crash left")
    left.chmod(0o644)
    before = os.umask(0)
    try:
        file.save(directory())
        file.save(EMPTY)
    finally:
        os.umask(before)
    assert {path.name: mode(path) for path in tmp_path.iterdir()} == {"auth.json": 0o600, "auth.json.bak": 0o600}


def test_a_file_that_was_opened_to_others_is_closed_again(tmp_path: Path, caplog: pytest.LogCaptureFixture):
    file = DirectoryFile(tmp_path / "auth.json")
    file.save(directory())
    file.path.chmod(0o644)
    with caplog.at_level(logging.WARNING):
        assert file.load() == directory()
    assert mode(file.path) == 0o600
    assert "other users could read it" in caplog.text


def test_a_damaged_file_stops_the_start_though_there_is_one_of_before_and_its_copy_is_closed_to_others(tmp_path: Path):
    file = DirectoryFile(tmp_path / "auth.json")
    file.save(directory())
    file.save(EMPTY)  # all users were deleted, and are in the `.bak`
    file.path.write_text('{"users":[{"username":"anna","password":"hunter2"')
    with pytest.raises(StoreError, match=r"copy auth\.json\.bak to auth\.json") as refused:
        file.load()
    assert "hunter2" not in str(refused.value)
    kept = tmp_path / "auth.json.damaged-1"
    assert mode(kept) == 0o600
    (tmp_path / "auth.json.bak").replace(file.path)
    assert file.load() == directory()


def test_an_unreadable_file_stops_the_start_and_shows_no_secret(tmp_path: Path):
    file = DirectoryFile(tmp_path / "auth.json")
    file.path.write_text('{"users":[{"username":"anna","password":["hunter2"]}]}')
    with pytest.raises(StoreError) as refused:
        file.load()
    assert "hunter2" not in str(refused.value)


@each_case(
    [],
    {"users": [{"password": "pw"}]},
    {"users": [{"username": "anna", "password": ""}]},
    {"users": [{"username": "a\n", "password": "pw"}]},
    {"acls": [{"subject": "User:nobody", "policies": [{"entries": [{"resource": "*", "actions": ["All"], "decision": "Deny"}]}]}]},
    {"users": [{"username": "a", "password": "pw"}], "acls": [{"subject": "User:a", "policies": [{"entries": [{"resource": "*"}]}]}]},
    {"users": [{"username": "a", "password": "pw"}],
     "acls": [{"subject": "User:a", "policies": [{"entries": [{"resource": "*", "actions": ["Any"], "decision": "Deny"}]}]}]},
)  # fmt: skip
def test_what_no_request_could_have_brought_there_is_refused(document: object):
    with pytest.raises(HeaderError):
        parse_directory(json.dumps(document).encode())


def test_an_empty_document_is_an_empty_directory():
    assert parse_directory(b"{}") == EMPTY
    assert parse_directory(format_directory(EMPTY)) == EMPTY
