"""A broker group: one broker name with the addresses of its master and slaves. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field

from orbitmq.model.route import MASTER_ID, BrokerData

GroupState = tuple[dict[int, str], bool, str | None]
"""What routes show of a group: addresses by id, acting master, zone."""


@dataclass(slots=True)
class Group:
    """The brokers of one name, the topics that they hold, and a revision that grows with every change of any of it.

    `cluster` is the first one whose broker brought the name, `clusters` are all that list it.
    """

    cluster: str
    broker_name: str
    addresses: dict[int, str] = field(default_factory=dict)
    zone_name: str | None = None
    acting_master: bool = False
    topics: dict[str, None] = field(default_factory=dict)
    clusters: dict[str, None] = field(default_factory=dict)
    revision: int = 0
    # A group of hundreds of topics stands in hundreds of routes: they share one value until the next change.
    _data: BrokerData | None = None

    @property
    def state(self) -> GroupState:
        """What routes show of the group, as a value to compare with a later one."""
        return dict(self.addresses), self.acting_master, self.zone_name

    @property
    def smallest_id(self) -> int:
        """The smallest broker id; the master's in an empty group."""
        return min(self.addresses, default=MASTER_ID)

    @property
    def data(self) -> BrokerData:
        """The group as routes show it."""
        if self._data is None:
            self._data = BrokerData(
                cluster=self.cluster,
                broker_name=self.broker_name,
                addresses=dict(self.addresses),
                zone_name=self.zone_name,
                enable_acting_master=self.acting_master,
            )
        return self._data

    def id_of(self, address: str) -> int | None:
        """Return the id of a broker, None when it is not in the group."""
        return next((broker_id for broker_id, found in self.addresses.items() if found == address), None)

    def drop_address(self, address: str, *, except_id: int | None = None) -> None:
        """Take an address from every id but one: a process has one id at a time."""
        held = [broker_id for broker_id, found in self.addresses.items() if found == address]
        for broker_id in held:
            if broker_id != except_id:
                del self.addresses[broker_id]

    def revise(self, revision: int) -> None:
        """Note that something about the group has changed."""
        self._data = None
        self.revision = revision
