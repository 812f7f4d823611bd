"""The page that brings a topic into a lake, run from top to bottom: twice, and after a kill between write and checkpoint."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from orbitmq import Message
from orbitmq.spark.versions import LIMITS_STREAMS

pytestmark = [pytest.mark.spark, pytest.mark.interop]

PAGE = Path(__file__).parents[2] / "docs" / "howto" / "topic-to-lake.md"
BLOCKS = re.findall(r"^```python\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)


@pytest.fixture
def lake(spark, rocketmq_session, send, topic, tmp_path):
    """Return a function that runs the page after some orders were sent, and what its names are then."""
    text = "\n".join(BLOCKS).replace(
        '"orders")\n    .option("startingOffsets"', f'"{topic}")\n    .option("startingOffsets"'
    )
    assert topic in text
    if not LIMITS_STREAMS:  # as the page says
        text = re.sub(r".*maxOffsetsPerTrigger.*\n", "", text)

    def run(*ids: int) -> dict[str, object]:
        send(Message(topic, json.dumps({"id": number, "amount": number / 2}).encode(), tag="paid") for number in ids)
        scope: dict[str, object] = {"spark": spark, "name_server": rocketmq_session.name_servers, "lake": str(tmp_path)}
        exec(compile(text, str(PAGE), "exec"), scope)
        return scope

    return run


def ids(rows) -> list[int]:
    return sorted(row.id for row in rows.select("id").collect())


def test_each_order_is_in_every_table_once_however_often_the_page_is_run(lake, spark, tmp_path):
    lake(1, 2, 3)
    scope = lake(4, 5)
    assert ids(spark.read.parquet(f"{tmp_path}/orders")) == [1, 2, 3, 4, 5]
    delta = scope["table"].to_pyarrow_table()
    assert sorted(delta["id"].to_pylist()) == [1, 2, 3, 4, 5]
    assert set(delta["amount"].to_pylist()) == {0.5, 1.0, 1.5, 2.0, 2.5}
    assert set(delta["tags"].to_pylist()) == {"paid"}
    (day,) = {row.day for row in spark.read.parquet(f"{tmp_path}/orders").select("day").collect()}
    for _ in range(2):
        scope["compact"](day)
        assert len(list((tmp_path / f"orders-by-day/day={day}").glob("*.parquet"))) == 1
    assert ids(spark.read.parquet(f"{tmp_path}/orders-by-day")) == [1, 2, 3, 4, 5]


def test_a_micro_batch_that_comes_again_after_a_kill_is_in_the_delta_table_once(lake, tmp_path):
    lake(1, 2)
    commits = tmp_path / "checkpoints/orders-delta/commits"
    for name in ("0", ".0.crc"):  # as a kill behind the write and before the commit leaves it
        (commits / name).unlink()
    scope = lake()
    assert sorted(scope["table"].to_pyarrow_table()["id"].to_pylist()) == [1, 2]
