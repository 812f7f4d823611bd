"""A Chromium for tests, driven by chromedriver's HTTP (W3C WebDriver): it clicks, types and reads as users do, and keeps what it complains of."""

from __future__ import annotations

import asyncio
import base64
import json
import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any, Self

import httpx
import pytest

ELEMENT = "element-6066-11e4-a52e-4f735466cecf"
"""The key of an element's reference in WebDriver's JSON."""
TAB, ENTER, SPACE, DOWN = "\ue004", "\ue007", " ", "\ue015"
FIND = """
const [text, inside] = arguments;
const scope = inside ? document.querySelector(inside) : document;
const shown = (one) => one.checkVisibility();
return [...scope.querySelectorAll('a, button, summary')].find((one) => shown(one) && one.textContent.trim() === text);
"""
FIND_FIELD = """
const [text, inside] = arguments;
const scope = inside ? document.querySelector(inside) : document;
const said = (one) => [...(one.labels ?? [])].map((label) => label.textContent).join(' ') + (one.ariaLabel ?? '');
return [...scope.querySelectorAll('input, select, textarea')].find((one) => one.checkVisibility() && (said(one).trim() + ' ').startsWith(text + ' '));
"""


class Chromium:
    """One window of a browser: `async with Chromium(home) as browser`.

    Args:
        home: a directory for its profile.
    """

    def __init__(self, home: Path) -> None:
        self._home = home
        self._http = httpx.AsyncClient(timeout=60)

    async def __aenter__(self) -> Self:
        driver = shutil.which("chromedriver")
        if driver is None:
            pytest.skip("no chromedriver: type 'sudo apt-get install chromium chromium-driver'")
        # Chromium leaves files there, and a socket whose path must be short.
        self._temporary = tempfile.TemporaryDirectory(ignore_cleanup_errors=True)
        environment = os.environ | {"HOME": str(self._home), "TMPDIR": self._temporary.name}
        self._driver = await asyncio.create_subprocess_exec(
            driver, "--port=0", stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.DEVNULL, env=environment
        )
        assert self._driver.stdout is not None
        async for line in self._driver.stdout:
            if found := re.search(rb"started successfully on port (\d+)", line):
                self._base = f"http://127.0.0.1:{int(found[1])}"
                break
        options = {
            "args": [
                "--headless=new",
                "--no-sandbox",
                "--disable-gpu",
                "--no-first-run",
                f"--user-data-dir={self._home}",
            ]
        }
        wanted = {
            "browserName": "chrome",
            "goog:chromeOptions": options,
            "goog:loggingPrefs": {"browser": "ALL", "performance": "ALL"},
        }
        session = (await self._post("/session", {"capabilities": {"alwaysMatch": wanted}}))["sessionId"]
        self._base += f"/session/{session}"
        await self.open("about:blank")
        await self.complaints()  # of the page that Chromium opens by itself
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._http.delete(self._base)
        await self._http.aclose()
        self._driver.terminate()
        await self._driver.wait()
        self._temporary.cleanup()

    async def open(self, url: str) -> None:
        """Open a page and wait until it is loaded."""
        await self._post("/url", {"url": url})

    async def run(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns; no page's policy holds for it."""
        return await self._post("/execute/sync", {"script": script, "args": arguments})

    async def run_async(self, script: str, *arguments: Any) -> Any:
        """Return what a script gives to its last argument, a function."""
        return await self._post("/execute/async", {"script": script, "args": arguments})

    async def until(self, script: str, *arguments: Any) -> Any:
        """Return what a script returns as soon as that is true; the test's time limit ends one that never is."""
        while not (found := await self.run(script, *arguments)):
            await asyncio.sleep(0.02)
        return found

    async def cdp(self, command: str, **parameters: Any) -> Any:
        """Give a command of Chromium's own protocol."""
        return await self._post("/goog/cdp/execute", {"cmd": command, "params": parameters})

    async def size(self, width: int, height: int) -> None:
        """Set the size of the page in CSS pixels, as a telephone or a window has it."""
        await self.cdp(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 600
        )

    async def scheme(self, scheme: str) -> None:
        """Prefer `light` or `dark`."""
        await self.cdp(
            "Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": scheme}], media=""
        )

    async def screenshot(self) -> bytes:
        """Return the window as PNG."""
        return base64.b64decode(await self._get("/screenshot"))

    async def text(self, selector: str = "main") -> str:
        """Return the text that an element shows."""
        return str(await self.run("return document.querySelector(arguments[0]).innerText", selector))

    async def click(self, text: str, inside: str = "") -> None:
        """Click the visible link, button or summary with this text, in the first element of a selector."""
        await self._click(await self._find(FIND, text, inside))

    async def follow(self, text: str, inside: str = "") -> None:
        """Click what leads to another page, and wait for it."""
        await self.run("document.isLeft = true")
        await self.click(text, inside)
        await self.arrive()

    async def arrive(self) -> None:
        """Wait for the page that comes after the one where `document.isLeft` was set."""
        await self.until("return !document.isLeft && document.readyState === 'complete'")

    async def fill(self, label: str, text: str, inside: str = "") -> None:
        """Type a text into the visible field whose label begins with these words, instead of what is there."""
        field = await self._find(FIND_FIELD, label, inside)
        await self._post(f"/element/{field[ELEMENT]}/clear", {})
        await self._post(f"/element/{field[ELEMENT]}/value", {"text": text})

    async def choose(self, label: str, option: str, inside: str = "") -> None:
        """Choose an option, by its text, of the visible list whose label begins with these words."""
        field = await self._find(FIND_FIELD, label, inside)
        script = "return [...arguments[0].options].find((one) => one.textContent.trim() === arguments[1])"
        await self._click(await self._found(script, field, option))

    async def tick(self, label: str, inside: str = "") -> None:
        """Click the visible box whose label begins with these words."""
        await self._click(await self._find(FIND_FIELD, label, inside))

    async def keys(self, *keys: str) -> None:
        """Press keys one after the other, wherever the focus is."""
        actions = [{"type": kind, "value": key} for text in keys for key in text for kind in ("keyDown", "keyUp")]
        await self._post("/actions", {"actions": [{"type": "key", "id": "keyboard", "actions": actions}]})

    async def complaints(self) -> list[str]:
        """Return what the console, the policy and the network complained of since the last question."""
        said = [entry["message"] for entry in await self._log("browser") if entry["level"] in ("SEVERE", "WARNING")]
        for entry in await self._log("performance"):
            event = json.loads(entry["message"])["message"]
            if event["method"] == "Network.loadingFailed" and not event["params"].get("canceled"):
                said.append(f"failed: {event['params']}")
            elif event["method"] == "Network.responseReceived" and event["params"]["response"]["status"] >= 400:
                said.append(f"{event['params']['response']['status']} {event['params']['response']['url']}")
        return said

    async def _find(self, script: str, text: str, inside: str) -> Any:
        return await self._found(script, text, inside)

    async def _found(self, script: str, *arguments: Any) -> Any:
        found = await self.run(script, *arguments)
        assert found is not None, f"no {arguments} on the page: {await self.text('body')}"
        return found

    async def _click(self, element: Any) -> None:
        await self._post(f"/element/{element[ELEMENT]}/click", {})

    async def _log(self, kind: str) -> Any:
        return await self._post("/se/log", {"type": kind})

    async def _get(self, path: str) -> Any:
        return (await self._http.get(self._base + path)).json()["value"]

    async def _post(self, path: str, body: dict[str, Any]) -> Any:
        answer = await self._http.post(self._base + path, json=body)
        assert answer.status_code == 200, answer.text
        return answer.json()["value"]
