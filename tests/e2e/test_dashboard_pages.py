"""Every page of the dashboard in a real Chromium: it loads clean, fits a telephone, and screen readers can read it."""

from __future__ import annotations

import asyncio
import io
import itertools
import os
from contextlib import AbstractAsyncContextManager
from importlib.resources import files
from pathlib import Path
from urllib.parse import quote

import numpy as np
import pytest
from PIL import Image

from e2e.chromium import Chromium
from e2e.shop import Shop, order, serving_dashboard, shop
from orbitmq.dashboard.app import PAGES
from orbitmq.dashboard.sessions import Role
from orbitmq.dashboard.users import LocalLogins, LocalUser

pytestmark = pytest.mark.proof

IMAGES = Path(__file__).parents[2] / "docs" / "images"
IMAGE_SIZE_MAX = 120_000
NAVIGATION = {
    "Overview": "/",
    "Topics": "/topics",
    "Groups": "/groups",
    "Messages": "/messages",
    "Dead letters": "/dead-letters",
    "Waiting": "/waiting",
    "Clients": "/clients",
    "NameServers": "/name-servers",
    "Users": "/users",
    "Doctor": "/doctor",
}
WIDER = """
const isWide = (one) => one.getBoundingClientRect().right > innerWidth + 1 && !one.matches('.skip');
return [document.documentElement.scrollWidth > innerWidth ? 'the page' : '',
        ...[...document.body.querySelectorAll('*')].filter(isWide).map((one) => one.outerHTML.slice(0, 100))].filter(Boolean);
"""
AXE = """
const done = arguments[arguments.length - 1];
axe.run(document, {resultTypes: ['violations']}).then((found) => done(found.violations
  .filter((one) => ['serious', 'critical'].includes(one.impact))
  .map((one) => one.id + ': ' + one.nodes.slice(0, 3).map((node) => node.html + ' ' + node.any.map((each) => each.message)).join('; '))));
"""


def addresses(shop: Shop) -> dict[str, tuple[str, str, str]]:
    """Return for each of `PAGES` one address, its title and its heading."""
    member = f"/groups/billing/members/{quote(shop.client_id, safe='')}"
    message = f"/topics/orders/messages/{shop.message_id}"
    return {
        "/": ("/", "Overview", "Overview"),
        "/topics": ("/topics?kind=all", "Topics", "Topics"),
        "/topics/{topic}": ("/topics/orders", "orders", "orders"),
        "/topics/{topic}/messages/{id}": (message, shop.message_id, shop.message_id),
        "/groups": ("/groups", "Groups", "Groups"),
        "/groups/{group}": ("/groups/billing", "billing", "billing"),
        "/groups/{group}/members/{client:path}": (f"{member}?stacks=1", shop.client_id, shop.client_id),
        "/messages": ("/messages?topic=orders&q=order-7003", "Messages", "Messages"),
        "/dead-letters": ("/dead-letters", "Dead letters", "Dead letters"),
        "/dead-letters/{group}": ("/dead-letters/billing", "Dead letters of billing", "Dead letters of billing"),
        "/waiting": ("/waiting", "Waiting", "Waiting"),
        "/brokers/{broker}": ("/brokers/broker-a", "broker-a", "broker-a"),
        "/name-servers": ("/name-servers?at=2026-01-01T00:00", "NameServers", "NameServers"),
        "/clients": ("/clients", "Clients", "Clients"),
        "/users": ("/users", "Users", "Users and rules"),
        "/doctor": ("/doctor", "Doctor", "What the doctor has found"),
    }


@pytest.fixture
def a_shop(tmp_path: Path) -> AbstractAsyncContextManager[Shop]:
    return shop(tmp_path / "data", brokers=2)


@pytest.fixture
def browser(tmp_path: Path) -> Chromium:
    return Chromium(tmp_path / "home")


async def test_every_page_loads_without_a_complaint_and_has_its_title_and_heading(
    a_shop: Shop, browser: Chromium
) -> None:
    found = addresses(a_shop)
    assert found.keys() == PAGES.keys()
    async with browser:
        for path, title, heading in found.values():
            await browser.open(a_shop.url(path))
            assert await browser.run("return document.title") == f"{title} · orbitmq"
            headings = await browser.run("return [...document.querySelectorAll('h1')].map((one) => one.textContent)")
            assert headings == [heading]
            assert await browser.run("return [...document.querySelectorAll('p.problem')].length") == 0, path
            assert await browser.complaints() == [], path


async def test_pages_show_what_the_cluster_holds(a_shop: Shop, browser: Chromium) -> None:
    async with browser:
        for path, texts in {
            "/groups/billing": ("1 member,", "The last hour", a_shop.client_id),
            "/groups/fulfilment": ("40 messages to come", "No member is online."),
            "/dead-letters/billing": ("no such account", "card declined", "amount is negative"),
            "/waiting": ("invoices", "30 min"),
            f"/topics/orders/messages/{a_shop.message_id}": ("webshop", "billing", "consumed"),
            "/doctor": ("3 dead letters",),
        }.items():
            await browser.open(a_shop.url(path))
            shown = await browser.text()
            assert [text for text in texts if text not in shown] == [], path


async def test_every_link_of_the_navigation_leads_to_its_page(a_shop: Shop, browser: Chromium) -> None:
    async with browser:
        await browser.open(a_shop.url("/topics/orders"))
        for name, path in NAVIGATION.items():
            await browser.follow(name, "header nav")
            assert await browser.run("return location.pathname") == path
            current = await browser.run("return document.querySelector('header [aria-current=page]').textContent")
            assert current == name
        links = await browser.run("return [...document.querySelectorAll('header nav a')].map((one) => one.textContent)")
        assert links == list(NAVIGATION)
        assert await browser.complaints() == []


@pytest.mark.parametrize("width", [360, 430])
async def test_nothing_of_a_page_is_wider_than_a_telephone(a_shop: Shop, browser: Chromium, width: int) -> None:
    async with browser:
        await browser.size(width, 640)
        for path, _title, _heading in addresses(a_shop).values():
            await browser.open(a_shop.url(path))
            await browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
            assert await browser.run(WIDER) == [], path


async def test_tables_are_read_again_until_that_is_paused_and_times_have_utc_on_hover(
    a_shop: Shop, browser: Chromium
) -> None:
    async with browser:
        await browser.open(a_shop.url("/topics/orders"))
        assert await browser.run("return document.querySelector('main time').title.endsWith(' UTC')")
        await browser.run("document.isOld = true")
        await browser.run("document.querySelector('section:nth-of-type(2) td').id = 'old'")
        await browser.until("return document.querySelector('section:nth-of-type(2) td').id === ''")
        assert await browser.run("return document.isOld")
        await browser.click("Pause refresh")
        await browser.open(a_shop.url("/groups"))
        assert await browser.text("#refresh") == "Refresh again"


async def test_settings_are_filtered_as_one_types(a_shop: Shop, browser: Chromium) -> None:
    async with browser:
        await browser.open(a_shop.url("/brokers/broker-a"))
        await browser.fill("Filter", "MaxMessageS")
        shown = "return [...document.getElementById('settings-rows').rows].filter((row) => row.checkVisibility()).map((row) => row.cells[0].textContent)"
        assert await browser.run(shown) == ["maxMessageSize"]


async def axe_findings(browser: Chromium) -> list[str]:
    """Return what axe-core calls serious or critical on the page, with all of its parts opened."""
    await browser.run("document.querySelectorAll('details').forEach((one) => { one.open = true; })")
    await browser.run((files("axe_core_python") / "axe.min.js").read_text(encoding="utf-8"))
    found: list[str] = await browser.run_async(AXE)
    return found


@pytest.mark.parametrize(("scheme", "width"), [("light", 1280), ("dark", 1280), ("light", 360)])
async def test_axe_finds_nothing_serious(a_shop: Shop, browser: Chromium, scheme: str, width: int) -> None:
    async with browser:
        await browser.scheme(scheme)
        await browser.size(width, 800)
        found = {}
        for path in (*(path for path, *_ in addresses(a_shop).values()), "/topics/nowhere", "/nothing", "/login"):
            await browser.open(a_shop.url(path))
            found[path] = await axe_findings(browser)
        await browser.open(a_shop.url("/topics/orders"))
        await browser.click("Change its settings")
        await browser.follow("Delete the topic")
        found["the question"] = await axe_findings(browser)
        assert {path: said for path, said in found.items() if said} == {}
        await browser.run("document.querySelector('main').innerHTML = '<input><p>pale</p>'")
        await browser.run("document.querySelector('main p').style = 'color: #eee; background: #fff'")
        assert [said.partition(":")[0] for said in await axe_findings(browser)] == ["color-contrast", "label"]


async def test_axe_finds_nothing_serious_in_the_login(a_shop: Shop, browser: Chromium) -> None:
    logins = LocalLogins({"anna": LocalUser(Role.ADMIN, "$argon2")})
    async with serving_dashboard(a_shop.cluster.name_servers, logins=logins) as dashboard, browser:
        await browser.open(dashboard.url)
        await browser.fill("Name", "anna")
        await browser.fill("Password", "wrong")
        await browser.follow("Log in")
        assert "the name or the password is wrong" in await browser.text()
        assert await axe_findings(browser) == []


@pytest.mark.parametrize("scheme", ["light", "dark"])
async def test_texts_stand_out_from_their_background_in_the_scheme_of_the_system(
    a_shop: Shop, browser: Chromium, scheme: str
) -> None:
    async with browser:
        await browser.scheme(scheme)
        await browser.open(a_shop.url("/topics/orders"))
        style = "const style = getComputedStyle(document.body); return [style.color, style.backgroundColor]"
        text, back = [sum(map(int, colour[4:-1].split(","))) for colour in await browser.run(style)]
        assert (text < back) == (scheme == "light")
        assert abs(text - back) > 500


def with_most_frequent_colours(picture: bytes) -> Image.Image:
    """Return a picture with its 256 most frequent colours, which takes a third of the bytes."""
    pixels = np.asarray(Image.open(io.BytesIO(picture)).convert("RGB")).astype(int)
    colours, which, counts = np.unique(pixels.reshape(-1, 3), axis=0, return_inverse=True, return_counts=True)
    kept = colours[np.argsort(-counts)[:256]]
    nearest = ((colours[:, None] - kept[None]) ** 2).sum(axis=2).argmin(axis=1).astype(np.uint8)
    image = Image.fromarray(nearest[which].reshape(pixels.shape[:2]))
    image.putpalette(kept.astype(np.uint8).tobytes())
    return image


@pytest.mark.skipif(not os.environ.get("ORBITMQ_SCREENSHOTS"), reason="writes docs/images: set ORBITMQ_SCREENSHOTS=1")
async def test_screenshots_of_the_pages_are_small(a_shop: Shop, browser: Chromium) -> None:
    IMAGES.mkdir(exist_ok=True)
    pages = {
        "overview": "/",
        "topic": "/topics/orders#tail",
        "group": "/groups/billing",
        "message": f"/topics/orders/messages/{a_shop.message_id}",
        "doctor": "/doctor",
        "dead-letters": "/dead-letters/billing",
    }
    async with browser:
        await browser.size(1280, 800)
        await browser.scheme("light")
        for name, page in pages.items():
            await browser.open(a_shop.url(page))
            if name == "topic":
                await browser.until("return document.getElementById('tail-state').textContent")
                numbers = itertools.count(40)
                while await browser.run("return document.getElementById('tail-rows').rows.length") < 6:
                    await a_shop.producer.send(order(next(numbers)))
                    await asyncio.sleep(0.2)  # as customers order
                await browser.run("scrollTo(0, 0)")
            path = IMAGES / f"dashboard-{name}.png"
            with_most_frequent_colours(await browser.screenshot()).save(path, optimize=True)
            assert path.stat().st_size < IMAGE_SIZE_MAX, name
