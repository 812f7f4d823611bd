"""Logins: users of a file and of the cluster, roles, cookies, and what they keep out."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import cache, partial
from pathlib import Path

import httpx
import pytest
from argon2 import PasswordHasher

from cases import each_case
from orbitmq.admin.access import AccessClient
from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.dashboard.app import DashboardOptions
from orbitmq.dashboard.sessions import ATTEMPTS_MAX, CHECKED_MS, COOKIE, Role
from orbitmq.dashboard.users import ClusterLogins, LocalLogins, LocalUser, format_user, load_users
from orbitmq.errors import ConfigError
from orbitmq.model.access import UserStatus, UserType
from orbitmq.net.security.client_security import ClientSecurity
from orbitmq.testing import LocalCluster
from orbitmq.wire.bodies.access import UserChange
from orbitmq.wire.signature import Credentials
from waiting import until

from .conftest import Browser, browsing, silent_broker


@pytest.fixture(autouse=True)
def _quick_hashes(monkeypatch: pytest.MonkeyPatch) -> None:
    """Hash with little memory: a hash of the usual cost takes 0.1 s, and each test makes several."""
    monkeypatch.setattr("orbitmq.dashboard.users.PasswordHasher", partial(PasswordHasher, 1, 8, 1))


PASSWORDS = {"rita": "reading", "otto": "operating", "anna": "administering"}
ROLES = dict(zip(PASSWORDS, Role, strict=True))


def local_logins() -> LocalLogins:
    return LocalLogins({name: LocalUser(Role(role), hashed) for name, role, hashed in _hashed_users()})


@cache
def _hashed_users() -> list[list[str]]:
    """Hash the passwords, which takes long on purpose."""
    return [format_user(name, ROLES[name], password).split() for name, password in PASSWORDS.items()]


@pytest.fixture
def guarded(tmp_path: Path) -> AbstractAsyncContextManager[Browser]:
    return _guarded(tmp_path)


@asynccontextmanager
async def _guarded(tmp_path: Path) -> AsyncIterator[Browser]:
    async with LocalCluster(data_dir=tmp_path) as cluster, browsing(cluster, logins=local_logins()) as browser:
        yield browser


async def log_in(browser: Browser, name: str, password: str, to: str = "/") -> httpx.Response:
    return await browser.client.post("/login", data={"name": name, "password": password, "to": to})


@pytest.mark.real
async def test_nothing_is_shown_without_a_login(guarded: Browser) -> None:
    for path in ("/", "/topics", "/topics/orders/tail", "/groups", "/messages?topic=a"):
        page = await guarded.client.get(path)
        assert (page.status_code, page.headers["location"].split("?")[0]) == (303, "/login"), path
        assert (await guarded.client.get(path, headers={"accept": "application/json"})).status_code == 401
    assert (await guarded.client.post("/topics", data={"topic": "orders", "confirmed": "yes"})).status_code == 401
    assert "password" in (await guarded.html("/login"))
    assert (await guarded.client.get("/static/style.css")).status_code == 200


@pytest.mark.real
async def test_a_login_leads_back_to_the_page_and_its_cookie_is_kept_from_scripts(guarded: Browser) -> None:
    answer = await log_in(guarded, "rita", PASSWORDS["rita"], "/topics?q=a")
    assert (answer.status_code, answer.headers["location"]) == (303, "/topics?q=a")
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie
    assert "rita, reader" in await guarded.html("/topics")


@pytest.mark.real
@pytest.mark.parametrize(
    "to", ["https://evil.example/", "//evil.example", "/\\evil.example", "javascript:alert(1)", "/a\r\nx: y"]
)
async def test_a_login_leads_to_no_other_site(guarded: Browser, to: str) -> None:
    assert (await log_in(guarded, "rita", PASSWORDS["rita"], to)).headers["location"] == "/"


@pytest.mark.real
async def test_wrong_passwords_and_names_are_refused_alike_and_too_many_wait(guarded: Browser) -> None:
    wrong = await log_in(guarded, "rita", "guess")
    unknown = await log_in(guarded, "someone", "guess")
    assert (wrong.status_code, unknown.status_code) == (403, 403)
    assert wrong.text == unknown.text
    assert COOKIE not in guarded.client.cookies
    for _ in range(4):
        await log_in(guarded, "rita", "guess")
    assert "try again in a minute" in (await log_in(guarded, "rita", PASSWORDS["rita"])).text
    assert (await log_in(guarded, "otto", PASSWORDS["otto"])).status_code == 303


@pytest.mark.real
async def test_logins_of_one_name_at_the_same_time_are_not_tried_more_often(guarded: Browser) -> None:
    answers = await asyncio.gather(*(log_in(guarded, "anna", f"guess {number}") for number in range(12)))

    assert sum("too many logins" in answer.text for answer in answers) == 12 - ATTEMPTS_MAX


@pytest.mark.real
async def test_logins_that_find_the_queue_full_are_told_when_to_try_again(guarded: Browser) -> None:
    answers = await asyncio.gather(*(log_in(guarded, f"name-{number}", "guess") for number in range(20)))

    full = [answer for answer in answers if answer.status_code == 429]
    assert len(full) == 2
    assert all(int(answer.headers["retry-after"]) > 0 for answer in full)


@pytest.mark.real
async def test_logins_that_do_not_fail_are_not_counted(guarded: Browser) -> None:
    answers = [await log_in(guarded, "rita", PASSWORDS["rita"]) for _ in range(ATTEMPTS_MAX + 1)]

    assert [answer.status_code for answer in answers] == [303] * (ATTEMPTS_MAX + 1)


@pytest.mark.real
@pytest.mark.parametrize(("name", "statuses"), [("rita", (403, 403)), ("otto", (403, 404)), ("anna", (200, 404))])
async def test_a_role_decides_what_may_be_changed(guarded: Browser, name: str, statuses: tuple[int, int]) -> None:
    await log_in(guarded, name, PASSWORDS[name])
    page = await guarded.html("/topics")
    assert ("Create a topic" in page) is (name == "anna")
    create = await guarded.send("/topics", topic="orders", queues=1)
    reset = await guarded.send("/groups/g/reset", topic="none", to="earliest")
    assert (create.status_code, reset.status_code) == statuses
    if 403 in statuses:
        assert f"{name} is {ROLES[name]}: this needs the role" in create.text


@pytest.mark.real
async def test_the_secret_of_one_session_does_not_count_in_another(guarded: Browser) -> None:
    await log_in(guarded, "anna", PASSWORDS["anna"])
    secret = await guarded.secret()
    await log_in(guarded, "anna", PASSWORDS["anna"])
    answer = await guarded.client.post("/topics", data={"topic": "orders", "confirmed": "yes", "csrf": secret})
    assert answer.status_code == 403


@pytest.mark.real
async def test_a_logout_ends_the_session_and_another_site_cannot_do_it(guarded: Browser) -> None:
    await log_in(guarded, "anna", PASSWORDS["anna"])
    await guarded.client.post("/logout", data={"csrf": "guess"})
    guarded.client.cookies.clear()
    await log_in(guarded, "anna", PASSWORDS["anna"])
    cookie = guarded.client.cookies[COOKIE]
    await guarded.client.post("/logout", data={"csrf": await guarded.secret()})
    guarded.client.cookies.set(COOKIE, cookie)
    assert (await guarded.client.get("/topics")).status_code == 303


@pytest.mark.real
async def test_a_live_tail_ends_with_its_session(guarded: Browser) -> None:
    await log_in(guarded, "anna", PASSWORDS["anna"])
    await guarded.change("/topics", topic="orders", queues=1)
    tail = asyncio.create_task(guarded.client.get("/topics/orders/tail"))
    await until(lambda: guarded.app.state.streams)
    await guarded.client.post("/logout", data={"csrf": await guarded.secret()})

    events = (await asyncio.wait_for(tail, 10)).text

    assert events.endswith('event: problem\ndata: "the session has ended: log in again"\n\n')


@pytest.mark.real
async def test_a_logout_that_is_no_form_is_refused(guarded: Browser) -> None:
    await log_in(guarded, "anna", PASSWORDS["anna"])

    assert (await guarded.client.post("/logout", content=b"\xff")).status_code == 400
    assert (await guarded.client.get("/topics")).status_code == 200


@pytest.mark.real
async def test_the_audit_log_names_the_user(guarded: Browser) -> None:
    await log_in(guarded, "anna", PASSWORDS["anna"])
    await guarded.change("/topics", topic="orders", queues=1)
    assert [record.who for record in guarded.audit] == ["anna"]


@pytest.mark.real
async def test_users_of_the_cluster_log_in_with_their_key_and_the_brokers_judge_them(tmp_path: Path) -> None:
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"a long secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"a long secret"}',
    }
    async with LocalCluster(data_dir=tmp_path, settings=settings) as cluster:
        root = ClientSecurity(Credentials("root", "a long secret"))
        clients = ClusterClients(cluster.name_servers, security=root)
        try:
            async with browsing(cluster, logins=ClusterLogins(clients)) as browser:
                assert (await log_in(browser, "root", "another secret")).status_code == 403
                assert (await log_in(browser, "root", "a long secret")).status_code == 303
                assert "orders is made" in await browser.change("/topics", topic="orders", queues=1)
                assert [record.who for record in browser.audit] == ["root"]
        finally:
            await clients.close()


@pytest.mark.real
async def test_a_user_of_the_cluster_whom_no_rule_lets_see_brokers_logs_in_and_pages_say_so(tmp_path: Path) -> None:
    settings = {
        "authenticationEnabled": "true",
        "authorizationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"a long secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"a long secret"}',
    }
    async with LocalCluster(data_dir=tmp_path, settings=settings) as cluster:
        clients = ClusterClients(cluster.name_servers, security=ClientSecurity(Credentials("root", "a long secret")))
        try:
            async with clients.access() as access:
                await access.create_user("nora", UserChange("nothing", UserType.NORMAL, UserStatus.ENABLE))
            async with browsing(cluster, logins=ClusterLogins(clients)) as browser:
                assert (await log_in(browser, "nora", "another secret")).status_code == 403
                assert (await log_in(browser, "nora", "nothing")).status_code == 303
                (broker,) = (await browser.json("/"))["brokers"]
                assert "User:nora has no permission" in broker["problem"]
        finally:
            await clients.close()


ACL = {
    "authenticationEnabled": "true",
    "authorizationEnabled": "true",
    "initAuthenticationUser": '{"username":"root","password":"a long secret"}',
    "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"a long secret"}',
}


@asynccontextmanager
async def _with_users(tmp_path: Path, *names: str) -> AsyncIterator[tuple[Browser, AccessClient]]:
    """Open a dashboard of the cluster's users: root, a super user, and some normal ones, who may see the broker."""
    async with LocalCluster(data_dir=tmp_path, settings=ACL) as cluster:
        clients = ClusterClients(cluster.name_servers, security=ClientSecurity(Credentials("root", "a long secret")))
        try:
            async with clients.access() as access, browsing(cluster, logins=ClusterLogins(clients)) as browser:
                for name in names:
                    await access.create_user(name, UserChange("nothing", UserType.NORMAL, UserStatus.ENABLE))
                yield browser, access
        finally:
            await clients.close()


@pytest.mark.real
async def test_what_no_broker_judges_is_for_super_users_of_the_brokers(tmp_path: Path) -> None:
    async with _with_users(tmp_path, "bob") as (browser, _access):
        await browser.app.state.watch.look()
        await log_in(browser, "bob", "nothing")
        refused = await browser.send("/brokers/broker-a/write-permission", writable="no", confirmed="yes")
        assert (refused.status_code, "bob is not a super user" in refused.text) == (403, True)
        assert (await browser.client.get("/doctor")).status_code == 403
        overview = await browser.json("/")
        assert (overview["issues"], overview["looked_at_ms"]) == ([], None)
        assert "super users" in await browser.html("/clients")
        await log_in(browser, "root", "a long secret")
        assert "is not written to any more" in await browser.change("/brokers/broker-a/write-permission", writable="no")
        assert (await browser.json("/"))["looked_at_ms"]


@pytest.mark.real
async def test_a_session_ends_with_its_user_of_the_cluster(tmp_path: Path) -> None:
    async with _with_users(tmp_path, "bob", "eve", "joe") as (browser, access):
        for name, end in (
            ("bob", access.delete_user("bob")),
            ("eve", access.update_user("eve", UserChange(None, None, UserStatus.DISABLE))),
            ("joe", access.update_user("joe", UserChange("another", None, None))),
        ):
            await log_in(browser, name, "nothing")
            secret = await browser.secret()
            await end
            assert (await browser.client.get("/topics")).status_code == 200, "it was looked up a moment ago"
            if name == "eve":  # without a change, half a minute later
                browser.app.state.sessions.all()[0].checked_ms -= CHECKED_MS
                assert (await browser.client.get("/topics")).status_code == 303
            change = await browser.client.post("/topics", data={"topic": "t", "csrf": secret, "confirmed": "yes"})
            assert (change.status_code, browser.app.state.sessions.all()) == (401, []), name


@pytest.mark.real
async def test_a_session_ends_when_its_user_is_removed_from_the_file(tmp_path: Path) -> None:
    path = tmp_path / "users"
    lines = [" ".join(line) for line in _hashed_users()]
    path.write_text("\n".join(lines))
    logins = LocalLogins(load_users(path), path)
    async with LocalCluster(data_dir=tmp_path / "data") as cluster, browsing(cluster, logins=logins) as browser:
        await log_in(browser, "otto", PASSWORDS["otto"])
        path.write_text("\n".join(lines).replace("otto operator", "otto reader"))
        refused = await browser.send("/topics/orders/send", body="x")
        assert "otto is reader: this needs the role operator" in refused.text
        path.write_text("no line of a user")
        assert (await browser.send("/topics/orders/send", body="x")).status_code == 403, "the users stay"
        path.write_text(lines[0])
        assert (await browser.send("/topics/orders/send", body="x")).status_code == 401
        assert (await log_in(browser, "otto", PASSWORDS["otto"])).status_code == 403


@pytest.mark.real
async def test_users_of_the_cluster_log_in_while_its_first_broker_is_silent(tmp_path: Path) -> None:
    settings = {
        "authenticationEnabled": "true",
        "initAuthenticationUser": '{"username":"root","password":"a long secret"}',
        "innerClientAuthenticationCredentials": '{"accessKey":"root","secretKey":"a long secret"}',
    }
    async with LocalCluster(data_dir=tmp_path, settings=settings) as cluster, silent_broker(cluster, "a-silent"):
        await cluster.restart_broker()  # it registers behind the silent one
        clients = ClusterClients(cluster.name_servers, timeout_ms=300)
        try:
            async with browsing(cluster, logins=ClusterLogins(clients)) as browser:
                assert (await log_in(browser, "root", "another secret")).status_code == 403
                assert (await log_in(browser, "root", "a long secret")).status_code == 303
        finally:
            await clients.close()


@pytest.mark.real
async def test_a_cluster_that_checks_no_signature_has_no_login(tmp_path: Path) -> None:
    async with LocalCluster(data_dir=tmp_path) as cluster:
        clients = ClusterClients(cluster.name_servers)
        try:
            async with browsing(cluster, logins=ClusterLogins(clients)) as browser:
                refused = await log_in(browser, "anyone", "anything")
                assert refused.status_code == 502
                assert "authenticationEnabled is off" in refused.text
                assert COOKIE not in browser.client.cookies
        finally:
            await clients.close()


def test_other_machines_need_a_login() -> None:
    with pytest.raises(ConfigError, match="host"):
        DashboardOptions(host="0.0.0.0")
    assert DashboardOptions(host="0.0.0.0", logins=local_logins()).host == "0.0.0.0"
    with pytest.raises(ConfigError, match="private_key"):
        DashboardOptions(certificate=Path("cert.pem"))


@each_case("*", "", "mq*", "*.*", "mq.example:8080", "http://mq.example", "mq.example/")
def test_what_is_no_host_name_is_not_allowed_as_one(name: str) -> None:
    with pytest.raises(ConfigError, match="hosts"):
        DashboardOptions(hosts=[name])


@pytest.mark.real
async def test_a_host_name_is_allowed_in_any_case(tmp_path: Path) -> None:
    async with LocalCluster(data_dir=tmp_path) as cluster, browsing(cluster, hosts=["MQ.Example"]) as browser:
        answer = await browser.client.get("/topics", headers={"host": "mq.example:8080"})
        assert answer.status_code == 200


def test_a_file_of_users_is_read_as_it_is_printed(tmp_path: Path) -> None:
    path = tmp_path / "users"
    path.write_text(f"# who\n\n{format_user('anna', Role.ADMIN, 'x')}\n")
    users = load_users(path)
    assert (list(users), users["anna"].role) == (["anna"], Role.ADMIN)


@pytest.mark.parametrize(
    "text",
    ["", "anna admin", "anna chief $argon2id$x", "anna admin plain", "a admin $argon2id$x\na reader $argon2id$y"],
)
def test_a_bad_file_of_users_is_refused_by_its_line(tmp_path: Path, text: str) -> None:
    path = tmp_path / "users"
    path.write_text(text)
    with pytest.raises(ConfigError, match="users"):
        load_users(path)
    with pytest.raises(ConfigError, match="users"):
        load_users(tmp_path / "missing")


@each_case(("", "x"), ("a b", "x"), ("#a", "x"), ("a", ""), ("a", "x" * 257), ("a\n", "x"))
def test_a_user_that_no_line_can_hold_is_refused(name: str, password: str) -> None:
    with pytest.raises(ConfigError):
        format_user(name, Role.READER, password)
