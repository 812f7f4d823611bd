"""The code in docs/howto must run as it stands."""

import ast
import re
from pathlib import Path

import pytest

from orbitmq.testing import LocalCluster

HOWTO = Path(__file__).parents[2] / "docs" / "howto"


def blocks(page):
    return re.findall(r"^```python\n(.*?)^```", (HOWTO / page).read_text(), re.DOTALL | re.MULTILINE)


def test_the_page_has_code():
    assert len(blocks("clients.md")) >= 5


async def test_the_clients_page_runs_from_top_to_bottom(capsys):
    async with LocalCluster(brokers=2, settings={"recall_message_enable": True}) as cluster:
        scope = {"name_servers": cluster.name_servers}
        for block in blocks("clients.md"):
            if "blocking" in block:
                continue  # it would wait for this very loop; the next test runs it
            code = compile(block, "clients.md", "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, scope)
            if result is not None:
                await result
    printed = capsys.readouterr().out
    assert "SEND_OK" in printed
    assert "messages, attempt 1" in printed


def test_the_blocking_example_runs():
    (block,) = [block for block in blocks("clients.md") if "blocking" in block]
    with LocalCluster.running() as cluster:
        scope = {"name_servers": cluster.name_servers}
        exec("from orbitmq import Message\n" + block, scope)


@pytest.mark.parametrize("name", ["Producer", "PushConsumer", "PullConsumer", "TransactionProducer"])
def test_the_page_speaks_of_every_client(name):
    assert f"{name}(" in (HOWTO / "clients.md").read_text()
