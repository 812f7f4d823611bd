"""The dashboard in a real Chromium: the live tail shows what comes, and no message runs as a script."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
from pathlib import Path
from typing import Any

import httpx
import pytest

from e2e.test_cli import serving
from orbitmq import Message, Producer

pytestmark = pytest.mark.proof

EVIL = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    '"><svg onload="document.title=\'owned\'">',
)


class Chromium:
    """A browser, driven by chromedriver's HTTP (W3C WebDriver): `async with Chromium(...)`."""

    def __init__(self, home: Path) -> None:
        self._home = home
        self._http = httpx.AsyncClient(timeout=60)

    async def __aenter__(self) -> Chromium:
        driver = shutil.which("chromedriver")
        if driver is None:
            pytest.skip("no chromedriver: type 'sudo apt-get install chromium chromium-driver'")
        environment = os.environ | {"HOME": str(self._home)}
        self._driver = await asyncio.create_subprocess_exec(
            driver, "--port=0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=environment
        )
        assert self._driver.stdout is not None
        async for line in self._driver.stdout:
            if found := re.search(rb"started successfully on port (\d+)", line):
                self._base = f"http://127.0.0.1:{int(found[1])}"
                break
        options = {"args": ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={self._home}"]}
        capabilities = {"alwaysMatch": {"browserName": "chrome", "goog:chromeOptions": options}}
        session = (await self._post("/session", {"capabilities": capabilities}))["sessionId"]
        self._base += f"/session/{session}"
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.delete(self._base)
        await self._http.aclose()
        self._driver.terminate()
        await self._driver.wait()

    async def open(self, url: str) -> None:
        await self._post("/url", {"url": url})

    async def run(self, script: str) -> Any:
        return await self._post("/execute/sync", {"script": script, "args": []})

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = await self._http.post(self._base + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]


async def test_a_live_tail_shows_what_comes_and_runs_none_of_it(tmp_path: Path) -> None:
    ports = ("--nameserver-port", 0, "--broker-port", 0, "-o", "json", "--data-dir", tmp_path / "data")
    with serving("up", *ports) as cluster:
        async with Producer("makers", cluster.name_servers) as producer:
            await producer.send(Message("orders", b"first"))
            with serving("dashboard", "-n", cluster.name_servers, "--port", 0, "-o", "json") as dashboard:
                async with Chromium(tmp_path / "home") as browser:
                    await browser.open(f"{dashboard.ready['dashboard']}topics/orders#tail")
                    while await browser.run("return document.getElementById('tail-rows').rows.length") < 2 * len(EVIL):
                        for text in EVIL:
                            await producer.send(Message("orders", text.encode(), keys=["k"], properties={"p": text}))
                    bodies = await browser.run(
                        "return [...document.querySelectorAll('#tail-rows td.body')].map((cell) => cell.textContent)"
                    )
                    assert set(bodies) == set(EVIL)
                    assert await browser.run("return document.title") == "orders · orbitmq"
                    assert (
                        await browser.run("return document.querySelectorAll('img, svg, main script:not([src])').length")
                        == 0
                    )
                    await browser.run("document.querySelector('#tail-rows td.body a').click()")
                    while "/messages/" not in await browser.run("return location.pathname"):
                        await asyncio.sleep(0.05)
                    assert await browser.run("return document.querySelector('pre').textContent") in EVIL
                    unnamed = await browser.run(
                        "return [...document.querySelectorAll('input, select, button, a')]"
                        ".filter((one) => !(one.labels?.length || one.textContent.trim())).length"
                    )
                    assert unnamed == 0
