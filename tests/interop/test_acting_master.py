"""A slave that stands in for its master, as Java's brokers do with enableSlaveActingMaster, hears of it from our NameServer."""

from typing import Any

import pytest

from interop.peers import JavaBroker
from interop.test_replacing import our_name_server

GROUP = {
    "enableSlaveActingMaster": "true",
    "compatibleWithOldNameSrv": "false",
    "syncBrokerMemberGroupPeriod": 3_600_000,  # or it would ask, before it is told
}
LOGGED = ("-Dpeers.log.level=INFO",)


def has_logged(broker: JavaBroker, text: str) -> bool:
    return text in broker.process.log_path.read_text(errors="replace")


@pytest.mark.proof
def test_our_name_server_tells_a_java_slave_that_its_master_came_and_that_it_left(java, tmp_path):
    with our_name_server(tmp_path / "nameserver", notifyMinBrokerIdChanged="true") as name_server:
        group: dict[str, Any] = {"name": "broker-g", "properties": GROUP}
        slave = JavaBroker(tmp_path / "slave", name_server, broker_id=1, jvm=LOGGED, **group)
        master = JavaBroker(tmp_path / "master", name_server, **group)
        slave.start()
        try:
            master.start()
            java.wait_for(
                lambda: has_logged(slave, "min broker id changed, prev 1, new 0"), "the slave to hear of its master"
            )
            master.kill()
            acting = f"Min broker changed, old: 0-null, new 1-{slave.address}"
            java.wait_for(lambda: has_logged(slave, acting), "the slave to act as master")
        finally:
            master.kill()
            slave.kill()
