"""The look that the dashboard takes each minute."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from orbitmq.admin.cluster_clients import ClusterClients
from orbitmq.admin.groups import GroupStatus
from orbitmq.dashboard import watching
from orbitmq.dashboard.charts import Sample
from orbitmq.doctor import Snapshot
from orbitmq.doctor.snapshot import GroupFacts
from orbitmq.errors import NoNameServer
from orbitmq.model.route import MessageQueue

STATUS = GroupStatus(group="billing", settings={}, subscriptions={})
OFFSETS = {MessageQueue("orders", "broker-a", 0): 5}
WHOLE = Snapshot(taken_at_ms=1, groups={"billing": GroupFacts(status=STATUS)}, committed={"billing": OFFSETS})


async def test_a_lag_is_unknown_without_the_part_of_a_silent_broker_and_where_a_look_failed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    looks = iter([WHOLE, dataclasses.replace(WHOLE, taken_at_ms=2, silent=["broker-b"])])

    async def take_snapshot(*_: Any, **__: Any) -> Snapshot:
        if (found := next(looks, None)) is None:
            raise NoNameServer("none answers")
        return found

    monkeypatch.setattr(watching, "take_snapshot", take_snapshot)
    watch = watching.Watch(ClusterClients("127.0.0.1:1"))
    await watch.look()
    await watch.look()
    assert watch.snapshot is not None
    assert watch.snapshot.taken_at_ms == 2
    await watch.look()
    assert watch.problem == "none answers"
    (known, *unknown) = watch.history.of(("lag", "billing"))
    assert (known, [sample.value for sample in unknown]) == (Sample(1, 0), [None, None])
