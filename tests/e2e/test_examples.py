"""The programs in examples/ do what their texts say: each runs as a process of its own, against a real cluster."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import socket
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from queue import Empty, SimpleQueue
from threading import Thread
from typing import Any

import httpx
import nbformat
import pytest
from nbclient import NotebookClient

from orbitmq import ConsumeFrom, Message, blocking
from orbitmq.testing import LocalCluster

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
LIMIT_S = 60
ORDER = {"id": "A-1", "item": "tea", "quantity": 2}


class Program:
    """A running example, and the lines that it logs."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.lines: list[str] = []
        self._new: SimpleQueue[str | None] = SimpleQueue()
        self._reader = Thread(target=self._read)
        self._reader.start()

    def wait_for(self, wanted: Callable[[str], object]) -> str:
        """Return the next line that is wanted; those before it are passed over."""
        deadline = time.monotonic() + LIMIT_S
        while (line := self._next(deadline)) is not None:
            if wanted(line):
                return line
        raise AssertionError("it has ended without that line:\n" + "".join(self.lines))

    def events(self) -> list[dict[str, Any]]:
        """Return the log of a program that has ended, and that logs in JSON."""
        self._reader.join(LIMIT_S)
        return [json.loads(line) for line in self.lines]

    def end(self) -> int:
        """Ask it to end as a container's platform does; return its exit code."""
        self.process.terminate()
        return self.process.wait(LIMIT_S)

    def close(self) -> None:
        """Kill it if it still runs, and take its last lines."""
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._reader.join(LIMIT_S)

    def _next(self, deadline: float) -> str | None:
        try:
            return self._new.get(timeout=max(0.0, deadline - time.monotonic()))
        except Empty:
            raise AssertionError(f"nothing in {LIMIT_S} s:\n" + "".join(self.lines)) from None

    def _read(self) -> None:
        assert self.process.stderr is not None
        with self.process.stderr as lines:
            for line in lines:
                self.lines.append(line)
                self._new.put(line)
        self._new.put(None)


@contextmanager
def running(folder: str, *arguments: str, **environment: str) -> Iterator[Program]:
    """Run an example from its folder, with the tests' orbitmq."""
    paths = [str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])]
    process = subprocess.Popen(
        [sys.executable, *arguments],
        cwd=EXAMPLES / folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(paths), "PYTHONDONTWRITEBYTECODE": "1", **environment},
        stderr=subprocess.PIPE,
        text=True,
    )
    program = Program(process)
    try:
        yield program
    finally:
        program.close()


def bodies(name_servers: str, topic: str, count: int, group: str = "test") -> list[bytes]:
    """Return a topic's messages when `count` are there, with all that have come with them."""
    found: list[bytes] = []
    with blocking.PushConsumer(group, name_servers, consume_from=ConsumeFrom.FIRST, poll_interval_ms=100) as consumer:
        consumer.subscribe(topic)
        while len(found) < count:
            batch = consumer.next_batch(timeout_ms=LIMIT_S * 1000)
            assert batch is not None, f"{len(found)} of {count} messages"
            found += [message.body for message in batch]
            batch.commit()
    return found


# The HTTP service


@contextmanager
def serving(name_servers: str, tmp_path: Path) -> Iterator[tuple[Program, httpx.Client]]:
    options = ("-m", "uvicorn", "app:app", "--port", "0", "--timeout-graceful-shutdown", "20")
    database = str(tmp_path / "orders.db")
    with running("fastapi_service", *options, NAMESRV_ADDR=name_servers, DATABASE=database) as program:
        url = re.search(r"http://\S+", program.wait_for(lambda line: "running on" in line))
        assert url is not None
        with httpx.Client(base_url=url[0], timeout=LIMIT_S) as client:
            yield program, client


def test_the_service_answers_202_with_the_id_of_a_message_that_consumers_get(rocketmq, tmp_path):
    with serving(rocketmq.name_servers, tmp_path) as (_, client):
        in_transaction = client.post("/orders", json=ORDER)
        plain = client.post("/orders/plain", json=ORDER | {"id": "A-2"})

        assert (in_transaction.status_code, plain.status_code) == (202, 202)
        assert in_transaction.json()["message_id"] != plain.json()["message_id"]
        assert sorted(json.loads(body)["id"] for body in bodies(rocketmq.name_servers, "orders", 2)) == ["A-1", "A-2"]
    with closing(sqlite3.connect(tmp_path / "orders.db")) as database:
        stored = database.execute("SELECT id, message_id FROM orders").fetchall()
    assert stored == [("A-1", in_transaction.json()["message_id"])]


def test_an_order_that_is_taken_already_or_invalid_sends_no_message(rocketmq, tmp_path):
    with serving(rocketmq.name_servers, tmp_path) as (_, client):
        answers = [client.post("/orders", json=order) for order in (ORDER, ORDER, ORDER | {"quantity": 0})]
        client.post("/orders/plain", json=ORDER | {"id": "last"})

        assert [answer.status_code for answer in answers] == [202, 409, 422]
        found = bodies(rocketmq.name_servers, "orders", 2)
    assert sorted(json.loads(body)["id"] for body in found) == ["A-1", "last"]


def test_the_service_is_ready_when_a_broker_takes_orders_and_says_503_before(rocketmq, tmp_path):
    rocketmq.stop_broker()
    with serving(rocketmq.name_servers, tmp_path) as (_, client):
        assert client.get("/health/live").status_code == 200
        assert client.get("/health/ready").status_code == 503
        refused = client.post("/orders", json=ORDER)
        assert (refused.status_code, refused.headers["Retry-After"]) == (503, "1")
        assert "orders" in refused.json()["detail"]

        rocketmq.start_broker()
        assert client.get("/health/ready").status_code == 200
        assert client.post("/orders", json=ORDER).status_code == 202


def test_a_request_that_has_begun_is_answered_although_sigterm_comes_before_its_body(rocketmq, tmp_path):
    with serving(rocketmq.name_servers, tmp_path) as (program, client):
        host, port = client.base_url.host, client.base_url.port
        assert port is not None
        body = json.dumps(ORDER).encode()
        head = f"POST /orders HTTP/1.1\r\nHost: {host}\r\nContent-Type: application/json\r\n"
        head += f"Content-Length: {len(body)}\r\nExpect: 100-continue\r\n\r\n"
        with socket.create_connection((host, port), LIMIT_S) as connection:
            connection.sendall(head.encode())
            assert connection.recv(1024).startswith(b"HTTP/1.1 100")  # the service waits for the body
            program.process.terminate()
            program.wait_for(lambda line: "Shutting down" in line)
            connection.sendall(body)
            assert connection.recv(1024).startswith(b"HTTP/1.1 202")
        # uvicorn ends by the signal that it got, after everything is closed.
        assert program.process.wait(LIMIT_S) == -signal.SIGTERM
        program.wait_for(lambda line: "Application shutdown complete" in line)
    assert [json.loads(found)["id"] for found in bodies(rocketmq.name_servers, "orders", 1)] == ["A-1"]


def test_the_service_commits_what_a_process_that_died_has_stored(tmp_path):
    settings = {"transactionTimeOut": 500, "transactionCheckInterval": 500}
    with LocalCluster.running(settings=settings) as cluster, serving(cluster.name_servers, tmp_path):
        with blocking.TransactionProducer("orders-service", cluster.name_servers) as died:
            for stored in (False, True):
                with died.transaction(Message("orders", b"stored" if stored else b"not stored")) as transaction:
                    transaction.unknown()  # no decision reaches the broker: it asks the service
                    if stored:
                        with closing(sqlite3.connect(tmp_path / "orders.db")) as database, database:
                            row = ("A-1", transaction.sent.message_id, "{}")
                            database.execute("INSERT INTO orders VALUES (?, ?, ?)", row)
        assert bodies(cluster.name_servers, "orders", 1) == [b"stored"]


# The worker


@contextmanager
def working(name_servers: str, database: Path) -> Iterator[Program]:
    with running("worker", "worker.py", NAMESRV_ADDR=name_servers, DATABASE=str(database)) as program:
        program.wait_for(says("started"))
        yield program


def says(text: str, **about: object) -> Callable[[str], bool]:
    """Return a check of a line of the worker's log."""

    def check(line: str) -> bool:
        event = json.loads(line)
        return bool(event["message"] == text and about.items() <= event.items())

    return check


def send(name_servers: str, *documents: object) -> None:
    with blocking.Producer("test", name_servers) as producer:
        for document in documents:
            producer.send(Message("orders", json.dumps(document).encode()))


def invoices(database: Path) -> list[tuple[str, int]]:
    with closing(sqlite3.connect(database)) as connection:
        return sorted(connection.execute("SELECT order_id, cents FROM invoices"))


@contextmanager
def locked(database: Path) -> Iterator[None]:
    """Keep the worker's database from being written."""
    with closing(sqlite3.connect(database, timeout=LIMIT_S, isolation_level=None)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        try:
            yield
        finally:
            connection.execute("ROLLBACK")


def test_the_worker_bills_an_order_once_although_it_comes_twice(rocketmq, tmp_path):
    database = tmp_path / "invoices.db"
    send(rocketmq.name_servers, {"id": "A-1", "cents": 5}, {"id": "A-1", "cents": 5}, {"id": "A-2", "cents": 7})
    with working(rocketmq.name_servers, database) as program:
        for _ in range(3):
            program.wait_for(lambda line: json.loads(line)["message"].startswith("billed"))
        assert program.end() == 0
    assert invoices(database) == [("A-1", 5), ("A-2", 7)]
    told = sorted((event["message"], event["order"]) for event in program.events() if "order" in event)
    assert told == [("billed", "A-1"), ("billed", "A-2"), ("billed before", "A-1")]


def test_an_order_that_can_never_be_billed_is_a_dead_letter_immediately(rocketmq, tmp_path):
    database = tmp_path / "invoices.db"
    send(rocketmq.name_servers, {"id": "A-1"}, {"id": "A-2", "cents": -1}, {"id": "A-3", "cents": 1})
    with working(rocketmq.name_servers, database) as program:
        letters = bodies(rocketmq.name_servers, "%DLQ%billing", 2)
        program.wait_for(says("billed", order="A-3"))
        assert program.end() == 0
    assert sorted(json.loads(body)["id"] for body in letters) == ["A-1", "A-2"]
    rejected = [event for event in program.events() if event["message"] == "rejected"]
    assert [event["level"] for event in rejected] == ["ERROR", "ERROR"]
    assert any("cents is -1" in event["reason"] for event in rejected)


def test_an_order_that_failed_comes_again_and_is_billed(tmp_path):
    database = tmp_path / "invoices.db"
    with LocalCluster.running(settings={"messageDelayLevel": "1s 1s 1s 1s 1s 1s"}) as cluster:
        with working(cluster.name_servers, database) as program:
            with locked(database):
                send(cluster.name_servers, {"id": "A-1", "cents": 5})
                failed = json.loads(program.wait_for(says("failed, comes again", attempt=1)))
            billed = json.loads(program.wait_for(says("billed", order="A-1")))
            assert program.end() == 0
    assert "locked" in failed["reason"]
    assert billed["attempt"] >= 2
    assert invoices(database) == [("A-1", 5)]


def test_sigterm_lets_the_order_in_handling_end_and_the_next_worker_goes_on_behind_it(rocketmq, tmp_path):
    database = tmp_path / "invoices.db"
    with working(rocketmq.name_servers, database) as first:
        with locked(database):
            send(rocketmq.name_servers, {"id": "A-1", "cents": 5})
            first.wait_for(says("handling"))
            first.process.terminate()
            first.wait_for(says("stopping"))
        assert first.process.wait(LIMIT_S) == 0
    assert [event["message"] for event in first.events()[-3:]] == ["stopping", "billed", "stopped"]

    send(rocketmq.name_servers, {"id": "A-2", "cents": 7})
    with working(rocketmq.name_servers, database) as second:
        second.wait_for(says("billed", order="A-2"))
        assert second.end() == 0
    assert [event["order"] for event in second.events() if "order" in event] == ["A-2"]
    assert invoices(database) == [("A-1", 5), ("A-2", 7)]


# The project with tests


def run_project(folder: Path) -> subprocess.CompletedProcess[str]:
    paths = os.pathsep.join([str(ROOT / "src"), *filter(None, [os.environ.get("PYTHONPATH")])])
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": paths},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )


@pytest.mark.interop
def test_the_project_passes_its_tests_and_they_find_a_wrong_invoice(tmp_path):
    project = tmp_path / "project"
    shutil.copytree(EXAMPLES / "pytest_project", project, ignore=shutil.ignore_patterns("__pycache__"))
    done = run_project(project)
    assert (done.returncode, "8 passed" in done.stdout) == (0, True), done.stdout + done.stderr

    handler = project / "src" / "billing" / "consumer.py"
    code = handler.read_text()
    assert code.count('order["quantity"] * order["price"]') == 1
    handler.write_text(code.replace('order["quantity"] * order["price"]', 'order["price"]'))
    done = run_project(project)
    assert (done.returncode, "3 failed, 5 passed" in done.stdout) == (1, True), done.stdout + done.stderr


# The notebook

NOTEBOOK = EXAMPLES / "notebook" / "topic.ipynb"


def test_the_notebook_is_kept_without_outputs():
    cells = [cell for cell in json.loads(NOTEBOOK.read_text(encoding="utf-8"))["cells"] if cell["cell_type"] == "code"]
    assert [(cell["outputs"], cell["execution_count"]) for cell in cells] == [([], None)] * len(cells)


@pytest.mark.spark
@pytest.mark.interop
def test_the_notebook_draws_the_topic_and_the_lag_of_a_group(rocketmq, tmp_path, monkeypatch):
    monkeypatch.setenv("NAMESRV_ADDR", rocketmq.name_servers)
    monkeypatch.setenv("PYTHONPATH", str(ROOT / "src"), prepend=os.pathsep)
    monkeypatch.setenv("IPYTHONDIR", str(tmp_path / "ipython"))
    orders = [{"id": number, "item": "tea", "total": 4} for number in range(35)]
    send(rocketmq.name_servers, *orders[:30])
    bodies(rocketmq.name_servers, "orders", 30, group="billing")  # 30 done of every queue's, and 5 to come
    send(rocketmq.name_servers, *orders[30:])
    notebook = nbformat.read(NOTEBOOK, as_version=4)
    NotebookClient(notebook, timeout=200, kernel_name="python3", resources={"metadata": {"path": tmp_path}}).execute()

    outputs = {cell["id"]: cell.get("outputs", []) for cell in notebook["cells"]}
    pictures = [name for name, found in outputs.items() if any("image/png" in one.get("data", {}) for one in found)]
    assert pictures == ["plot-totals", "plot-lag"]
    assert re.search(r"tea\|\s*35\|\s*140", text_of(outputs["sum-by-item"]))
    assert sum(int(line.split()[-1]) for line in text_of(outputs["plot-lag"]).splitlines()) == 5


def text_of(outputs: list[dict[str, Any]]) -> str:
    return "".join(one["text"] for one in outputs if one["output_type"] == "stream" and one["name"] == "stdout")
