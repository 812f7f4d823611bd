"""The page for users of Kafka's connector: its ten minutes, its code, and its tables of options and columns."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from e2e.page_steps import BLOCK, Folder
from orbitmq.spark.given_options import ALIASES, KAFKA_OPTIONS
from orbitmq.spark.options import READ_OPTIONS, WRITE_OPTIONS
from orbitmq.spark.schema import COLUMN_NAMES
from orbitmq.spark.writing.messages import COLUMNS, KAFKA_COLUMNS

PAGE = (Path(__file__).parents[2] / "docs/howto/coming-from-kafkas-connector.md").read_text(encoding="utf-8")
SECTIONS = {part.partition("\n")[0]: part for part in PAGE.split("\n## ")}
OURS = {*READ_OPTIONS, *WRITE_OPTIONS}
ADDRESS = "127.0.0.1:9876"
RUN_THE_CODE = """
from pyspark.sql import SparkSession

spark = SparkSession.builder.getOrCreate()
{code}
query.processAllAvailable()
query.stop()
print("read", rows.count(), "streamed", spark.read.parquet("lake/all").count())
source = spark.read.format("rocketmq").option("nameServer", "127.0.0.1:9876").option("topic", "orders")
for row in source.load().where("keys = '22'").collect():
    print("sent", bytes(row.body), row.properties["source"], row.properties["__SHARDINGKEY"])
print("later", source.option("startingTimestamp", "2100-01-01").load().count())
"""


def rows(section: str) -> list[tuple[list[str], list[str]]]:
    """Return the names in the first two cells of each row of a section's table."""
    lines = re.findall(r"^\| (`.*?) \| (.*?) \|", SECTIONS[section], re.MULTILINE)
    return [(re.findall(r"`([^`]+)`", kafka), re.findall(r"`([^`]+)`", ours)) for kafka, ours in lines]


def test_the_table_of_options_is_that_of_the_code() -> None:
    of_kafka = {alias.lower() for alias in ALIASES} - {"subexpression", "pulltimeout"}
    told = {}
    for kafka, ours in rows("Options"):
        for name in kafka:
            key = name.replace("*", "")
            told[key.lower()] = key
            if key in KAFKA_OPTIONS:
                assert ours == [found for found, _ in [KAFKA_OPTIONS[key]] if found], name
            elif key.lower() in ALIASES:
                assert ours == [ALIASES[key.lower()]], name
            else:
                assert key in ours, name
                assert key in OURS, name
    assert {key.lower() for key in KAFKA_OPTIONS} | of_kafka <= told.keys()


def test_the_table_of_columns_names_columns() -> None:
    told = {kafka[0]: ours for kafka, ours in rows("Columns")}
    assert {name for ours in told.values() for name in ours} <= {*COLUMN_NAMES, *COLUMNS}
    assert KAFKA_COLUMNS.keys() <= told.keys()


def test_the_code_of_kafkas_connector_is_python() -> None:
    """Its jar is not here: of it nothing more is said."""
    found = re.findall(r"^```py\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert len(found) == 3
    for block in found:
        compile(block, "page", "exec")


@pytest.mark.spark
@pytest.mark.interop
def test_the_ten_minutes_and_the_code_run(tmp_path: Path) -> None:
    folder = Folder(tmp_path)
    with folder.up("orbitmq up"):
        step = SECTIONS["Ten minutes to a stream in Parquet"].replace(ADDRESS, folder.environment["NAMESRV_ADDR"])
        _, lake = folder.follow(step.replace("pip install '.[spark]'", "orbitmq up"))
        assert re.findall(r"in the lake: (\d+)", lake) == ["20", "21"]
        code = "\n".join(text for kind, text in BLOCK.findall(SECTIONS["Side by side"]) if kind == "python")
        program = RUN_THE_CODE.format(code=code).replace(ADDRESS, folder.environment["NAMESRV_ADDR"])
        (tmp_path / "sides.py").write_text(f"import orbitmq.spark\n{program}")
        printed = folder.type("python sides.py")
        assert 'sent b\'{"id":22,"amount":3.5}\' shop 22' in printed
        assert re.search(r"read 2[12] streamed 2[12]", printed)
        assert "later 0" in printed
