"""Contracts of bodies that are JSON, read from a file, and Spark's own functions that check a body against one."""

from __future__ import annotations

from collections.abc import Iterator
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from orbitmq.errors import ConfigError

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession
    from pyspark.sql.types import StructType


class Contract(NamedTuple):
    """What bodies have to be.

    Args:
        text: the file's columns in Spark's DDL.
        digest: of the file, so that a change of it is noticed.
    """

    file: Path
    text: str
    digest: str


def load_contract(file: Path) -> Contract:
    """Read a contract.

    Raises:
        ConfigError: the file cannot be read.
    """
    try:
        content = file.read_bytes()
        text = content.decode().strip()
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError("contract", str(file), f"a file that can be read ({type(error).__name__})") from None
    return Contract(file, text, sha256(content).hexdigest()[:16])


_BROKEN = "_broken"
"""Where from_json puts a body that is not as declared."""


def check_contract(spark: SparkSession, contract: Contract) -> None:
    """Find out now whether Spark can judge by a contract, and not in the first micro-batch.

    Raises:
        ConfigError: it cannot: the contract means nothing to it.
    """
    from pyspark.errors import PySparkException

    try:
        checked(spark.sql("select cast('' as binary) as body"), contract).collect()
    except PySparkException as error:
        text = str(error).strip().splitlines()[0].split(" SQLSTATE")[0]
        raise ConfigError("contract", str(contract.file), f"one that Spark understands ({text})") from None


def checked(rows: DataFrame, contract: Contract) -> DataFrame:
    """Return rows with what their bodies say, `value`, and why they break the contract, `reason`: null for those that do not."""
    from pyspark.sql import functions as f

    declared = _parse_ddl(contract.text)
    text = f.col("body").cast("string")
    document = f.try_parse_json(f.concat(f.lit("["), text, f.lit("]")))  # whatever follows a document breaks the list
    count = f.size(f.try_variant_get(document, "$", "array<variant>"))
    kind = f.schema_of_variant(f.try_variant_get(document, "$[0]", "variant"))
    value = _read_json(text, declared)
    reason = (
        f.when(f.col("body").isNull() | ~f.is_valid_utf8(text), f.lit("the body is no UTF-8 text"))
        .when(document.isNull() | (count != 1), f.lit("the body is not a JSON document"))
        .when(~kind.startswith("OBJECT"), f.lit("the body is not a JSON object"))
        .when(value[_BROKEN].isNotNull(), f.concat(f.lit("not as declared: "), _wrong_fields(text, declared)))
        .otherwise(_missing_fields(value, declared))
    )
    whole = f.struct(*(value[field.name].alias(field.name) for field in declared.fields))
    whole = f.when(value.isNotNull(), whole)  # a struct of nothing's fields fails in Spark 4.0 and 4.1
    return rows.withColumn("value", whole).withColumn("reason", reason)


def _wrong_fields(text: Column, declared: StructType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StructType

    found = [
        f.when(
            _read_json(text, StructType([field]))[_BROKEN].isNotNull(),
            f.lit(f"{field.name} ({field.dataType.simpleString()})"),
        )
        for field in declared.fields
    ]
    return f.concat_ws(", ", *found)


def _missing_fields(value: Column, declared: StructType) -> Column:
    from pyspark.sql import functions as f

    found = [f.when(absent, f.lit(path)) for path, absent in _required(value, declared)]
    names = f.concat_ws(", ", *found)
    return f.when(names != "", f.concat(f.lit("missing: "), names))


def _required(value: Column, declared: StructType, prefix: str = "") -> Iterator[tuple[str, Column]]:
    """Yield the fields that must be there, and the test that one is not though what it belongs to is."""
    from pyspark.sql.types import StructType

    for field in declared.fields:
        path, found = f"{prefix}{field.name}", value[field.name]
        if not field.nullable:
            yield path, found.isNull() & value.isNotNull()
        if isinstance(field.dataType, StructType):
            yield from _required(found, field.dataType, f"{path}.")


def _read_json(text: Column, declared: StructType) -> Column:
    from pyspark.sql import functions as f
    from pyspark.sql.types import StringType, StructField, StructType

    schema = StructType([*declared.fields, StructField(_BROKEN, StringType())])
    return f.from_json(text, schema, {"mode": "PERMISSIVE", "columnNameOfCorruptRecord": _BROKEN})


def _parse_ddl(text: str) -> StructType:
    from pyspark.sql.types import StructType

    declared: StructType = StructType.fromDDL(text)
    return declared
