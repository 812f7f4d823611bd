"""Roles, sessions and failed logins, with the time as an argument."""

from __future__ import annotations

import pytest

from orbitmq.dashboard import sessions
from orbitmq.dashboard.sessions import (
    ADDRESS_ATTEMPTS_MAX,
    ATTEMPTS_MAX,
    ATTEMPTS_MS,
    IDLE_MS,
    SESSION_MS,
    Attempts,
    Role,
    Session,
    Sessions,
)


def session(user: str = "alice") -> Session[None]:
    return Session(user=user, role=Role.OPERATOR, csrf="secret", clients=None)


def test_a_role_may_what_the_lower_ones_may() -> None:
    assert [Role.OPERATOR.may(role) for role in Role] == [True, True, False]
    assert session().may("reader")
    assert not session().may("admin")


def test_a_session_ends_when_it_is_not_used_and_when_its_time_is_over() -> None:
    opened: Sessions[None] = Sessions()
    opened.add("token", session(), 0)
    assert opened.find("token", IDLE_MS - 1) is not None
    assert opened.find("token", 2 * IDLE_MS - 2) is not None
    assert opened.find("token", 3 * IDLE_MS) is None
    opened.add("other", session(), 0)
    for now_ms in range(0, SESSION_MS, IDLE_MS // 2):
        assert opened.find("other", now_ms) is not None
    assert opened.find("other", SESSION_MS) is None


def test_a_cookie_without_a_session_has_none() -> None:
    opened: Sessions[None] = Sessions()
    assert opened.find(None, 0) is None
    assert opened.find("", 0) is None
    assert opened.find("guess", 0) is None
    assert opened.remove("guess") is None


def test_asking_whether_a_session_is_open_does_not_prolong_it() -> None:
    opened: Sessions[None] = Sessions()
    opened.add("a", session(), 0)

    assert opened.peek("a", IDLE_MS - 1)
    assert opened.peek("a", IDLE_MS) is None
    assert opened.peek(None, 0) is None


def test_a_logout_ends_a_session() -> None:
    opened: Sessions[None] = Sessions()
    opened.add("token", session(), 0)
    assert opened.remove("token") is not None
    assert opened.find("token", 1) is None


def test_of_too_many_sessions_the_one_ends_that_was_used_least_recently(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "SESSIONS_MAX", 2)
    opened: Sessions[None] = Sessions()
    opened.add("a", session("a"), 0)
    opened.add("b", session("b"), 1)
    opened.find("a", 2)
    assert [ended.user for ended in opened.add("c", session("c"), 3)] == ["b"]
    assert [found.user for found in opened.all()] == ["a", "c"]


def test_sessions_whose_time_is_over_are_let_go_of_with_the_next_login() -> None:
    opened: Sessions[None] = Sessions()
    opened.add("a", session("a"), 0)
    assert [ended.user for ended in opened.add("b", session("b"), IDLE_MS)] == ["a"]


def test_notices_are_said_once() -> None:
    found = session()
    found.notices.append("done")
    assert (found.take_notices(), found.take_notices()) == (["done"], [])


def fail(attempts: Attempts, name: str, address: str, count: int = ATTEMPTS_MAX) -> None:
    for _ in range(count):
        attempts.failed(name, address, 0)


def test_a_name_that_failed_often_waits() -> None:
    attempts = Attempts()
    fail(attempts, "alice", "a")
    assert attempts.wait_ms("alice", "b", ATTEMPTS_MS - 1) == 1
    assert attempts.wait_ms("bob", "a", 0) == 0
    assert attempts.wait_ms("alice", "a", ATTEMPTS_MS) == 0


def test_an_address_that_failed_often_waits_whatever_the_names_are() -> None:
    attempts = Attempts()
    for number in range(ADDRESS_ATTEMPTS_MAX):
        assert attempts.wait_ms(str(number), "a", 0) == 0
        attempts.failed(str(number), "a", 0)
    assert attempts.wait_ms("alice", "a", 0) == ATTEMPTS_MS
    assert attempts.wait_ms("alice", "b", 0) == 0


def test_a_locked_name_may_log_in_from_where_it_last_did() -> None:
    attempts = Attempts()
    attempts.succeeded("alice", "home")
    fail(attempts, "alice", "a")
    assert [attempts.wait_ms("alice", address, 0) for address in ("a", "b", "home")] == [ATTEMPTS_MS, ATTEMPTS_MS, 0]
    fail(attempts, "alice", "home")
    assert attempts.wait_ms("alice", "home", 0) == ATTEMPTS_MS


def test_names_and_addresses_that_failed_are_not_remembered_without_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions, "NAMES_MAX", 3)
    attempts = Attempts()
    for number in range(10):
        attempts.failed(str(number), str(number), 0)
        attempts.succeeded(str(number), str(number))
    assert (len(attempts._failed), len(attempts._addresses)) == (3, 3)
