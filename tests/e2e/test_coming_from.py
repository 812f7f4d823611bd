"""The pages for users of other clients: ours runs, Java's compiles, and what both say of defaults and calls is so."""

from __future__ import annotations

import ast
import inspect
import os
import re
import subprocess
from pathlib import Path

import pytest

import orbitmq
from interop.peers import class_path, java, require_java
from orbitmq import Message, Producer
from orbitmq.admin import AdminClient
from orbitmq.testing import LocalCluster

HOWTO = Path(__file__).parents[2] / "docs" / "howto"
PAGES = ["coming-from-java.md", "coming-from-kafka.md"]
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
    """Those of Kafka are not installed here: nothing more can be said of it."""
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
