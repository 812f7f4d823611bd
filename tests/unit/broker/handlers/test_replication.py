from __future__ import annotations

import orjson
import pytest

from golden import golden
from orbitmq.errors import HeaderError
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers import (
    ExchangeReplicationInfo,
    ExchangeReplicationInfoResponse,
    GetReplicationStatus,
    NotifyMinBrokerIdChange,
    ResetMasterFlushOffset,
)
from unit.broker.conftest import Harness


async def test_a_master_says_where_its_log_ends_and_that_no_slave_follows(harness: Harness) -> None:
    await harness.send("t")
    document = orjson.loads((await harness.ask(GetReplicationStatus())).body)
    assert document["master"] is True
    assert document["haConnectionInfo"] == []
    assert document["masterCommitLogMaxOffset"] == harness.broker.service.store.max_physical_offset > 0


async def test_a_master_knows_its_own_log(harness: Harness) -> None:
    await harness.send("t")
    assert await harness.code(ResetMasterFlushOffset(master_flush_offset=0)) == 0
    assert harness.broker.service.store.max_physical_offset > 0


async def test_a_slave_is_told_the_addresses_that_the_master_registers_with(harness: Harness) -> None:
    await harness.send("t")
    answer = await harness.ask(ExchangeReplicationInfo())
    told = decode_header(ExchangeReplicationInfoResponse, answer.ext_fields)
    address = harness.broker.service.address
    assert (told.master_ha_address, told.master_address) == (address.replication, address.announced)
    assert told.master_flush_offset == 0  # the log was empty when it started
    assert (
        answer.ext_fields.keys() == golden("906-exchange-broker-ha-info-answer").expected["header"]["ext_fields"].keys()
    )


async def test_a_master_that_is_told_of_another_one_stays_what_it_is(harness: Harness) -> None:
    await harness.send("t")
    answer = await harness.ask(ExchangeReplicationInfo(master_ha_address="10.0.0.1:10912", master_flush_offset=0))
    assert (answer.code, answer.ext_fields or {}) == (0, {})
    assert (await harness.pull("t"))[0].code == 0


async def test_a_master_that_hears_of_another_smallest_id_in_its_group_serves_on(harness: Harness) -> None:
    assert (await harness.send("t")).code == 0
    notice = NotifyMinBrokerIdChange(min_broker_id=1, min_broker_addr="10.0.0.1:10911")
    answer = await harness.ask(notice)
    assert (answer.code, answer.ext_fields or {}, answer.body) == (0, {}, b"")
    assert (await harness.send("t")).code == 0
    assert (await harness.pull("t"))[0].code == 0


def test_a_notice_of_a_smallest_id_that_names_none_is_refused() -> None:
    with pytest.raises(HeaderError, match="minBrokerId"):
        decode_header(NotifyMinBrokerIdChange, {"minBrokerAddr": "10.0.0.1:10911"})
