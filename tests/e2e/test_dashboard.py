"""The dashboard in a real Chromium: the live tail shows what comes, and no message runs as a script."""

from __future__ import annotations

from pathlib import Path

import pytest

from e2e.chromium import Chromium
from e2e.test_cli import serving
from orbitmq import Message, Producer

pytestmark = pytest.mark.proof

EVIL = (
    "<script>document.title='owned'</script>",
    "<img src=x onerror=\"document.title='owned'\">",
    '"><svg onload="document.title=\'owned\'">',
)


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
                    await browser.run("document.isLeft = true; document.querySelector('#tail-rows td.body a').click()")
                    await browser.arrive()
                    assert await browser.run("return document.querySelector('pre').textContent") in EVIL
