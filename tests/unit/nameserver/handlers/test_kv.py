"""Claims about requests of the key-value store."""

from __future__ import annotations

from pathlib import Path

import orjson
import pytest

from orbitmq.wire.headers import (
    DeleteKvConfig,
    GetKvConfig,
    GetKvListByNamespace,
    PutKvConfig,
)

from ..support import asking

pytestmark = pytest.mark.real


async def test_key_values(tmp_path: Path):
    async with asking(tmp_path) as asker:
        absent = await asker.ask(GetKvConfig(namespace="n", key="k"))
        assert (absent.code, absent.remark) == (22, "No config item, Namespace: n Key: k")
        nothing = await asker.ask(GetKvListByNamespace(namespace="n"))
        assert (nothing.code, nothing.remark) == (22, "No config item, Namespace: n")
        assert (await asker.ask(PutKvConfig(namespace="n", key="k", value="v"))).code == 0
        assert (await asker.ask(GetKvConfig(namespace="n", key="k"))).ext_fields == {"value": "v"}
        assert orjson.loads((await asker.ask(GetKvListByNamespace(namespace="n"))).body) == {"table": {"k": "v"}}
        refused = await asker.ask(PutKvConfig(key="k", value="v"))
        assert (refused.code, refused.remark) == (1, "namespace or key is null")
        await asker.ask(PutKvConfig(namespace="n", key="k"))
        assert (await asker.ask(GetKvConfig(namespace="n", key="k"))).code == 22
        assert (await asker.ask(DeleteKvConfig(namespace="n", key="k"))).code == 0
        assert orjson.loads((await asker.ask(GetKvListByNamespace(namespace="n"))).body) == {"table": {}}


async def test_key_values_survive_a_restart(tmp_path: Path):
    async with asking(tmp_path) as asker:
        await asker.ask(PutKvConfig(namespace="n", key="k", value="v"))
    async with asking(tmp_path) as asker:
        assert (await asker.ask(GetKvConfig(namespace="n", key="k"))).ext_fields == {"value": "v"}
