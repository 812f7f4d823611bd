"""Builders of broker groups for tests."""

from orbitmq.controller.values import LiveMembers, Replica, ReplicaGroup, Standing


def group(members=(1, 2, 3), *, name="orders", **values):
    """A group of some members; with a master it has been led."""
    replicas = {key: Replica(f"10.0.0.{key}:10911", f"10.0.0.{key}:10911;{key}") for key in members}
    values.setdefault("was_led", values.get("master") is not None or bool(values.get("sync_set")))
    values["sync_set"] = frozenset(values.get("sync_set", ()))
    return ReplicaGroup(cluster="c", name=name, next_id=max(members, default=0) + 1, replicas=replicas, **values)


def living(*alive, unheard=(), **standings):
    """Living members: by id, those with a standing as m2=(epoch, max_offset) or with a priority behind them."""
    found = {key: Standing() for key in alive}
    found |= {int(key[1:]): Standing(*value) for key, value in standings.items()}
    return LiveMembers(found, frozenset(unheard))
