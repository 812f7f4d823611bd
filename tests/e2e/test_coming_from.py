"""The pages for users of other clients: ours runs, Java's compiles, and what both say of defaults and calls is so."""

from __future__ import annotations

import ast
import asyncio
import inspect
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

import orbitmq
from interop.peers import JavaProxy, class_path, java, require_java
from orbitmq import Message, Producer, PullConsumer, TransactionProducer
from orbitmq.admin import AdminClient
from orbitmq.model.topic import TopicConfig
from orbitmq.testing import LocalCluster

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = ["coming-from-java.md", "coming-from-kafka.md", "coming-from-the-5x-client.md"]
JAVA_PAGE = (HOWTO / "coming-from-java.md").read_text(encoding="utf-8")
DEFAULTS = re.findall(r"^\| `(Default\w+)\.(\w+)` \| (\S+) \| `(\w+)\.(\w+)` \| (\S+) \|$", JAVA_PAGE, re.MULTILINE)
CALLS = re.search(
    r"^\| `DefaultMQAdminExt` \| `AdminClient` \|\n\|---\|---\|\n(.*?)\n\n", JAVA_PAGE, re.DOTALL | re.MULTILINE
)
IMPORTS = """
import java.util.*;
import org.apache.rocketmq.client.consumer.*;
import org.apache.rocketmq.client.consumer.listener.*;
import org.apache.rocketmq.client.producer.*;
import org.apache.rocketmq.common.consumer.*;
import org.apache.rocketmq.common.message.*;
import org.apache.rocketmq.tools.admin.*;
"""


def blocks(page: str, language: str) -> list[str]:
    return re.findall(
        rf"^```{language}\n(.*?)^```", (HOWTO / page).read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE
    )


def run_java(folder: Path, source: str, *, runs: bool = True) -> str:
    """Compile a class `Program`, run it if told so, and return what it prints."""
    (folder / "Program.java").write_text(source)
    path = os.pathsep.join([str(folder), class_path()])
    printed = ""
    for program, word in ((f"{java()}c", "Program.java"), (java(), "Program"))[: 1 + runs]:
        command = [program, "-cp", path, *(("-d", ".") if program.endswith("javac") else ()), word]
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        printed = done.stdout
    return printed


@pytest.mark.parametrize("page", PAGES)
async def test_our_code_runs_from_top_to_bottom(page: str) -> None:
    assert len(blocks(page, "python")) >= 3
    async with LocalCluster(settings={"recallMessageEnable": True}) as cluster:
        async with Producer("test", cluster.name_servers) as producer:
            await producer.send(Message("orders", b"{}", tag="new"))
        scope = {"name_servers": cluster.name_servers}
        for block in blocks(page, "python"):
            code = compile(block, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)
            result = eval(code, scope)
            if result is not None:
                await result


@pytest.mark.parametrize("page", PAGES[1:])
def test_the_code_of_other_clients_compiles(page: str) -> None:
    """Kafka's are not installed here: of them nothing more is said."""
    assert len(blocks(page, "py")) >= 3
    for block in blocks(page, "py"):
        compile(block, page, "exec", ast.PyCF_ALLOW_TOP_LEVEL_AWAIT)


# Java


def test_the_tables_are_found() -> None:
    assert len(DEFAULTS) >= 15
    assert CALLS is not None
    assert len(CALLS[1].splitlines()) >= 15


@pytest.mark.parametrize(("client", "argument", "default"), [row[3:] for row in DEFAULTS])
def test_a_default_of_ours_is_the_one_of_the_page(client: str, argument: str, default: str) -> None:
    found = inspect.signature(getattr(orbitmq, client)).parameters[argument].default
    assert str(getattr(found, "name", found)).lower() == default.lower()


@pytest.mark.java
def test_the_defaults_of_java_are_those_of_the_page(tmp_path: Path) -> None:
    require_java()
    lines = "".join(
        f'System.out.println(new {name}("g").{"is" if default in ("true", "false") else "get"}{bean[0].upper()}{bean[1:]}());\n'
        for name, bean, default, *_ in DEFAULTS
    )
    printed = run_java(
        tmp_path,
        f"{IMPORTS}public class Program {{ public static void main(String[] a) {{\n{lines}System.exit(0); }} }}\n",
    )
    assert printed.split() == [default for _, _, default, *_ in DEFAULTS]


@pytest.mark.java
@pytest.mark.parametrize("block", blocks("coming-from-java.md", "java"))
def test_java_code_compiles(block: str, tmp_path: Path) -> None:
    require_java()
    run_java(tmp_path, f"{IMPORTS}class Program {{ void run() throws Exception {{\n{block}}} }}\n", runs=False)


@pytest.mark.java
def test_the_calls_of_administrators_exist_on_both_sides(tmp_path: Path) -> None:
    require_java()
    assert CALLS is not None
    rows = [[re.findall(r"`(\w+)`", cell) for cell in row.split("|")[1:3]] for row in CALLS[1].splitlines()]
    assert {name for _, ours in rows for name in ours if not hasattr(AdminClient, name)} == set()
    printed = run_java(
        tmp_path,
        f"{IMPORTS}public class Program {{ public static void main(String[] a) {{\n"
        "for (var method : DefaultMQAdminExt.class.getMethods()) System.out.println(method.getName()); } }\n",
    )
    assert {name for java, _ in rows for name in java} - set(printed.split()) == set()


# The official client of 5.x

PREAMBLE = """
import time
from rocketmq import SimpleConsumer

receive = SimpleConsumer.receive


def until_there(self, *arguments):
    # The proxy takes no requests before it has a new client's settings, and its first answer may be an empty one.
    for _ in range(100):
        try:
            if found := receive(self, *arguments):
                return found
        except Exception as error:
            print(error, file=sys.stderr)
        time.sleep(0.2)
    raise AssertionError("nothing came")


SimpleConsumer.receive = until_there
"""


@pytest.mark.java
async def test_the_official_clients_code_runs_through_a_proxy(tmp_path: Path) -> None:
    require_java()
    page = "coming-from-the-5x-client.md"
    async with LocalCluster() as cluster:
        async with AdminClient(cluster.name_servers) as admin:
            for topic, kind in (("orders", "NORMAL"), ("payments", "TRANSACTION")):
                await admin.create_topic(TopicConfig(topic=topic, attributes={"+message.type": kind}))
        proxy = JavaProxy(tmp_path / "proxy", cluster.name_servers)
        await asyncio.to_thread(proxy.start)
        try:
            code = f"import sys\n{PREAMBLE}" + "\n".join(blocks(page, "py"))
            code = code.replace("127.0.0.1:8081", proxy.address).replace("127.0.0.1:9876", cluster.name_servers)
            program = tmp_path / "program.py"
            program.write_text(code)
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                str(program),
                env={**os.environ, "HOME": str(tmp_path)},
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
            )
            try:
                printed, errors = await asyncio.wait_for(process.communicate(), 100)
            finally:
                if process.returncode is None:
                    process.kill()
                    await process.wait()
        finally:
            await asyncio.to_thread(proxy.kill)
        assert process.returncode == 0, errors.decode()
        assert printed.decode().splitlines()[1:] == ["b'{}' 1", "b'{}'"]
        async with PullConsumer("test", cluster.name_servers) as reader:
            reader.assign(await reader.queues("payments"))
            assert [message.body for message in await reader.poll(20_000)] == [b"{}"]


@pytest.mark.parametrize("kind", ["NORMAL", "FIFO", "DELAY", "TRANSACTION"])
async def test_ours_sends_any_kind_of_message_to_a_topic_of_any_type(kind: str) -> None:
    async with LocalCluster() as cluster, AdminClient(cluster.name_servers) as admin:
        await admin.create_topic(TopicConfig(topic="typed", attributes={"+message.type": kind}))
        async with TransactionProducer("test", cluster.name_servers) as producer:
            async with producer.transaction(Message("typed", b"transaction")):
                pass
            await producer.send(Message("typed", b"ordered", sharding_key="a"))
            await producer.send(Message("typed", b"delayed", delay_ms=1))
        found: set[bytes] = set()
        async with PullConsumer("test", cluster.name_servers) as reader:
            reader.assign(await reader.queues("typed"))
            while len(found) < 3:
                found |= {message.body for message in await reader.poll(20_000)}
        assert found == {b"transaction", b"ordered", b"delayed"}
