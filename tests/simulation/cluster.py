"""One life of a cluster: NameServers, brokers, producers and consumers, while machines and links fail.

What is claimed: a message whose send was answered with SEND_OK is where the answer says, is consumed, and is in its queue
once; queues have no gaps; no error goes uncaught; and when nothing fails any more, everything goes on by itself.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from dataclasses import dataclass, field
from functools import partial
from random import Random
from typing import Any

from orbitmq import ConsumeFrom, Message, Producer, PushConsumer
from orbitmq.broker.app import Broker
from orbitmq.broker.config import BrokerConfig
from orbitmq.errors import NoNameServer, OrbitError
from orbitmq.nameserver.app import NameServer
from orbitmq.nameserver.config import NameServerConfig
from orbitmq.store import ReadStatus
from orbitmq.wire.messages.record import iter_records
from simulation.machines import Machine, Process, Program
from simulation.world import World, open_world

TOPIC, GROUP = "orders", "billing"
NAME_SERVER_PORT, BROKER_PORT = 9_876, 10_911
LIFE_S = 60.0
TIMEOUT_S = 180.0
"""How long a cluster may take to be whole again once nothing fails any more: a route is asked for every 30 s."""
_SEGMENT_SIZE = 64 * 1024
FAULTS = ("kill", "power", "stop", "cut", "alone", "slow")


@dataclass(frozen=True)
class Weather:
    """The conditions of one life, drawn from its seed: some kinds of faults, and not others. Times are seconds."""

    name_servers: int
    brokers: int
    producers: int
    consumers: int
    senders: int
    send_pause_s: float
    consume_pause_s: float
    """How long a batch is under way in a consumer, at most."""
    flush: str
    sync_s_max: float
    jitter_s: float
    pause_s: float
    """Mean time between faults."""
    down_s: float
    """Mean time that a fault lasts."""
    faults: dict[str, float]
    """How often each kind is, relative to the others."""

    @property
    def may_lose(self) -> bool:
        """Return True if what was acknowledged may be gone after a power cut."""
        return self.flush == "ASYNC_FLUSH" and self.faults["power"] > 0

    @classmethod
    def draw(cls, random: Random) -> Weather:
        return cls(
            name_servers=random.choice([1, 2, 3]),
            brokers=random.choice([1, 1, 2, 3]),
            producers=random.choice([1, 2]),
            consumers=random.choice([1, 2, 3]),
            senders=random.choice([1, 4]),
            send_pause_s=random.choice([0.1, 0.5, 2]),
            consume_pause_s=random.choice([0, 0.1, 2]),
            flush=random.choice(["ASYNC_FLUSH", "SYNC_FLUSH"]),
            sync_s_max=random.choice([0.001, 0.02, 0.5]),
            jitter_s=random.choice([0.0, 0.001, 0.05]),
            pause_s=random.choice([0.5, 2, 8]),
            down_s=random.choice([0.2, 2, 15]),
            faults={fault: random.choice([0, 0, 1, 1, 3]) for fault in FAULTS},
        )

    def draw_fault(self, random: Random) -> str:
        """Draw what goes wrong next; blank: nothing."""
        if not any(self.faults.values()):
            return ""
        return random.choices(list(self.faults), list(self.faults.values()))[0]


@dataclass
class Ledger:
    """What clients were told."""

    sent: int = 0
    acknowledged: dict[str, tuple[str, int, int]] = field(default_factory=dict)
    """Bodies with broker, queue and offset."""
    consumed: Counter[str] = field(default_factory=Counter)
    failures: Counter[str] = field(default_factory=Counter)


class Life:
    """One life.

    Args:
        keeps_trace: keep all that happens as text.
    """

    def __init__(self, world: World) -> None:
        self.world = world
        self.random = Random(world.random.random())
        self.weather = Weather.draw(self.random)
        self.ledger = Ledger()
        self.name_servers = [world.machine(f"ns{number}") for number in range(1, self.weather.name_servers + 1)]
        self.brokers = [world.machine(f"broker-{letter}") for letter in "abc"[: self.weather.brokers]]
        self.producers = [world.machine(f"producer{number}") for number in range(1, self.weather.producers + 1)]
        self.consumers = [world.machine(f"consumer{number}") for number in range(1, self.weather.consumers + 1)]
        self._addresses = ";".join(f"{machine.address}:{NAME_SERVER_PORT}" for machine in self.name_servers)
        self._heard = set[Machine]()
        """Producers with an answer since the last look."""
        self._is_quiet = False
        world.sync_s_max = self.weather.sync_s_max
        world.network.jitter_s = self.weather.jitter_s

    @property
    def machines(self) -> list[Machine]:
        return [*self.name_servers, *self.brokers, *self.producers, *self.consumers]

    async def play(self) -> None:
        """Live, and judge."""
        for machine in self.machines:
            self.start(machine)
        await self.world.until(lambda: all(broker.process.what for broker in self.brokers), 60, "brokers start")  # type: ignore[union-attr]
        await self._fail_for(LIFE_S)
        self._mend()
        self._heard.clear()
        await self.world.until(lambda: self._heard >= set(self.producers), TIMEOUT_S, "all producers send again")
        self._is_quiet = True
        await self.world.until(self._is_all_consumed, TIMEOUT_S, "all that was sent is consumed")
        self._judge_queues()
        self._judge_errors()

    def start(self, machine: Machine) -> None:
        """Start what a machine is for."""
        kinds = (
            (self.name_servers, self._name_server), (self.brokers, self._broker),
            (self.producers, _again(self._producer)), (self.consumers, _again(self._consumer)),
        )  # fmt: skip
        machine.start(next(program for machines, program in kinds if machine in machines))

    async def _name_server(self, process: Process) -> None:
        machine = process.machine
        server = NameServer(NameServerConfig(
            bind_address=machine.address, listen_port=NAME_SERVER_PORT, metrics_port=-1,
            kv_config_path=machine.directory / "kvConfig.json", config_store_path=machine.directory / "namesrv.conf",
        ))  # fmt: skip
        await server.start()
        process.what = server
        await asyncio.get_running_loop().create_future()

    async def _broker(self, process: Process) -> None:
        machine, weather = process.machine, self.weather
        config = BrokerConfig(
            broker_name=machine.name, broker_ip1=machine.address, bind_address=machine.address, listen_port=BROKER_PORT,
            namesrv_addr=self._addresses, store_path_root_dir=machine.directory, vip_channel_enable=False,
            flush_disk_type=weather.flush, mapped_file_size_commit_log=_SEGMENT_SIZE,
            mapped_file_size_consume_queue=20 * 200, max_hash_slot_num=100, max_index_num=400,
            mapped_file_size_timer_log=_SEGMENT_SIZE, timer_wheel_enable=False,
        )  # fmt: skip
        broker = Broker(config)
        await broker.start()
        process.what = broker
        await asyncio.get_running_loop().create_future()

    async def _producer(self, process: Process) -> None:
        ledger = self.ledger
        async with Producer("orders-service", self._addresses) as producer:
            process.what = producer

            async def send() -> None:
                while not self._is_quiet:
                    ledger.sent += 1
                    body = f"{ledger.sent}"
                    try:
                        sent = await producer.send(Message(TOPIC, body.encode(), keys=[body]))
                    except OrbitError as error:
                        ledger.failures[type(error).__name__] += 1
                        self.world.trace(f"{process} cannot send {body}: {error}")
                    else:
                        queue = sent.queue
                        self.world.trace(f"{process} has sent {body}: {sent.status} {queue} {sent.queue_offset}")
                        ledger.acknowledged[body] = queue.broker_name, queue.queue_id, sent.queue_offset
                        self._heard.add(process.machine)
                    await asyncio.sleep(self.random.random() * self.weather.send_pause_s)

            await asyncio.gather(*(send() for _ in range(self.weather.senders)))
            await asyncio.get_running_loop().create_future()

    async def _consumer(self, process: Process) -> None:
        async with PushConsumer(GROUP, self._addresses, consume_from=ConsumeFrom.FIRST) as consumer:
            process.what = consumer
            consumer.subscribe(TOPIC)
            async for batch in consumer:
                await asyncio.sleep(self.random.random() * self.weather.consume_pause_s)
                for message in batch:
                    self.ledger.consumed[message.body.decode()] += 1
                batch.commit()

    async def _fail_for(self, duration_s: float) -> None:
        world, random, weather = self.world, self.random, self.weather
        end = world.loop.time() + duration_s
        while world.loop.time() < end:
            await asyncio.sleep(random.expovariate(1 / weather.pause_s))
            match weather.draw_fault(random):
                case "kill":
                    self._down(random.choice(self.machines), is_power_cut=False)
                case "power":
                    self._down(random.choice([*self.brokers, *self.name_servers]), is_power_cut=True)
                case "stop":
                    self._stop(random.choice(self.machines))
                case "cut":
                    self._cut(*random.sample(self.machines, 2), is_both_ways=random.random() < 0.5)
                case "alone":
                    self._alone(random.choice(self.machines))
                case "slow":
                    one, other = random.sample(self.machines, 2)
                    world.network.slow[one.address, other.address] = random.random()

    def _down(self, machine: Machine, *, is_power_cut: bool) -> None:
        if machine.process is None:
            return
        if is_power_cut:
            machine.cut_power()
            machine.has_power = False
        else:
            machine.kill()
        self._later(self.random.expovariate(1 / self.weather.down_s), lambda: self._up(machine))

    def _up(self, machine: Machine) -> None:
        machine.has_power = True
        if machine.process is None:
            self.start(machine)

    def _stop(self, machine: Machine) -> None:
        machine.stop()
        self._later(self.random.expovariate(1 / self.weather.down_s), machine.go_on)

    def _cut(self, one: Machine, other: Machine, *, is_both_ways: bool) -> None:
        links = [(one.address, other.address), (other.address, one.address)][: 1 + is_both_ways]
        self.world.trace(f"links break: {links}")
        for link in links:
            self.world.network.break_link(*link)
            self._later(self.random.expovariate(1 / self.weather.down_s), partial(self.world.network.mend_link, *link))

    def _alone(self, machine: Machine) -> None:
        for other in self.machines:
            if other is not machine:
                self._cut(machine, other, is_both_ways=True)

    def _later(self, delay_s: float, act: Any) -> None:
        self.world.loop.call_later(delay_s, act)

    def _mend(self) -> None:
        """From here on nothing fails; consumers begin again, and knows only what servers tell."""
        self.world.trace("all is mended")
        self.world.network.mend()
        for machine in self.machines:
            machine.go_on()
            if machine in self.consumers:
                machine.kill()
            self._up(machine)

    def _is_all_consumed(self) -> bool:
        is_up = all(machine.process is not None and machine.process.what is not None for machine in self.machines)
        return is_up and all(body in self.ledger.consumed for body in self._kept())

    def _kept(self) -> list[str]:
        """Return what must not be lost: with ASYNC_FLUSH a power cut may take what was acknowledged."""
        return [] if self.weather.may_lose else list(self.ledger.acknowledged)

    def _judge_queues(self) -> None:
        """Every queue is without gaps, has nothing twice, and what was acknowledged at its place."""
        places: dict[str, tuple[str, int, int]] = {}
        for machine in self.brokers:
            assert machine.process is not None
            store = machine.process.what.service.store
            for queue_id in range(4):
                offset = 0
                while (found := store.read(TOPIC, queue_id, offset, 1_000, 1 << 20)).status is ReadStatus.FOUND:
                    for record in iter_records(found.body):
                        assert record.queue_offset == offset, (
                            f"{machine} {queue_id}: {record.queue_offset}, not {offset}"
                        )
                        places[bytes(record.body).decode()] = machine.name, queue_id, offset
                        offset += 1
        for body in self._kept():
            place = self.ledger.acknowledged[body]
            assert self._body_at(*place) == body, f"{body} is not at {place}, but at {places.get(body)}"

    def _body_at(self, broker: str, queue_id: int, offset: int) -> str | None:
        machine = next(machine for machine in self.brokers if machine.name == broker)
        assert machine.process is not None
        found = machine.process.what.service.store.read(TOPIC, queue_id, offset, 1, 1 << 20)
        return next((bytes(record.body).decode() for record in iter_records(found.body)), None)

    def _judge_errors(self) -> None:
        assert not self.world.loop.complaints, self.world.loop.complaints


def _again(program: Program) -> Program:
    """Begin again where a client could not begin: it says so when no NameServer answers, and its user tries again."""

    async def run(process: Process) -> None:
        while True:
            try:
                await program(process)
            except NoNameServer:
                if process.what is not None:
                    raise
                await asyncio.sleep(1)

    return run


def live(seed: int, *, keeps_trace: bool = False) -> tuple[Life, World]:
    """Play the life of a seed.

    Raises:
        AssertionError: a claim does not hold.
    """
    with open_world(seed, keeps_trace=keeps_trace) as world:
        life = Life(world)
        world.run(life.play)
        return life, world
