"""An honest producer and consumer next to each hostile client of a broker: `make proof ARGS="--only hostile-broker"`, or `python -m hostile.broker_figures [deaf-pullers …] [--share 0.01]`.

Prints what was asked, what was measured and whether that reaches it; keeps full-size results as JSON. Exit code 1 when a
figure is not reached.
"""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path

from children import environment
from hostile.broker_attacks import ATTACKS
from hostile.broker_honest import HonestPair
from hostile.figure import Figure, Size, percentile
from hostile.figures import main
from hostile.victim import BrokerVictim
from orbitmq.net.loop import run

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "latest-hostile-broker.json"
LATENCY_MS, MEMORY_MB = 100, 100
STATE_MB = {"hundreds-of-groups": 300}
"""What an attack makes may take so much besides: `groupsMax` lets 200,000 groups be made, of 1.5 KiB each with their topics."""
SECONDS = 10
WARM_S = 1
SETTINGS: dict[str, dict[str, object]] = {
    "idle-connections": {"connectionsMax": 100},
    "new-expressions": {"enablePropertyFilter": "true"},
}


def attack(name: str, size: Size) -> Figure:
    """Measure honest clients next to one attack."""
    with ExitStack() as stack:
        victim = stack.enter_context(BrokerVictim(**SETTINGS.get(name, {})))
        command = [sys.executable, "-m", "hostile.broker_attacks", name, victim.host, str(victim.port), str(size.share)]
        attacker = stack.enter_context(
            subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment())
        )
        stack.callback(attacker.kill)
        return run(_watch(name, size, victim, attacker))


async def _watch(name: str, size: Size, victim: BrokerVictim, attacker: subprocess.Popen[str]) -> Figure:
    assert attacker.stdin is not None
    assert attacker.stdout is not None
    line = await asyncio.to_thread(attacker.stdout.readline)
    assert line == "ready\n", line
    honest = HonestPair(victim.address)
    await honest.prepare()
    warm_until = time.monotonic() + WARM_S
    await honest.work_while(lambda: time.monotonic() < warm_until)
    before, calm = victim.memory_mb, percentile(honest.deliveries_ms, 0.99)
    most = before
    honest.clear()

    async def start() -> None:
        assert attacker.stdin is not None
        assert attacker.stdout is not None
        attacker.stdin.write("go\n")
        attacker.stdin.flush()
        await asyncio.to_thread(attacker.stdout.readline)

    seconds = SECONDS * max(0.1, min(1.0, size.share))
    ends = time.monotonic() + seconds
    starting = asyncio.create_task(start())

    def goes_on() -> bool:
        nonlocal most
        most = max(most, victim.memory_mb)
        return time.monotonic() < ends or not starting.done()

    await honest.work_while(goes_on)
    await starting
    await honest.close()
    most = max(most, victim.memory_mb)
    sends, deliveries = (percentile(values, 0.99) for values in (honest.sends_ms, honest.deliveries_ms))
    slowest = max(*honest.sends_ms, *honest.deliveries_ms)
    grown, memory_mb = most - before, MEMORY_MB + STATE_MB.get(name, 0)
    return Figure(
        asked=f"honest p99 <= {LATENCY_MS} ms, memory <= +{memory_mb} MiB",
        measured=f"send p99 {sends:.1f} ms, delivery p50 {percentile(honest.deliveries_ms, 0.5):.1f} p99 {deliveries:.1f} ms "
        f"(alone {calm:.1f}), slowest {slowest:.0f} ms, {honest.failures} of {len(honest.sends_ms)} failed; "
        f"memory +{grown:.0f} MiB",
        reached=max(sends, deliveries) <= LATENCY_MS and grown <= memory_mb and not honest.failures,
    )


FIGURES: Mapping[str, Callable[[Size], Figure]] = {name: partial(attack, name) for name in ATTACKS}

if __name__ == "__main__":
    raise SystemExit(main("hostile.broker_figures", FIGURES, RESULTS, __doc__))
