"""Every figure of what survives, with its full size: `make proof ARGS="--only crash/"`, or `python -m crash.figures [kills-sync model …] [--share 0.01]`.

Prints what was asked, what was measured and whether that reaches it; keeps full-size results as JSON (see `hostile.figures`). Exit code 1
when a figure is not reached.
"""

from __future__ import annotations

import asyncio
import logging
import tempfile
from collections import Counter
from collections.abc import Callable, Mapping
from pathlib import Path
from random import Random
from statistics import median

from crash import (
    broker_damage,
    damage,
    delay_cuts,
    delay_rate,
    derived_cuts,
    derived_kills,
    faults,
    model,
    power_cuts,
    record_damage,
    transactions,
)
from crash.broker_process import BrokerProcess
from crash.kills import SETTINGS, Kills, Lost
from crash.ledger import Loss, play
from hostile.figure import Figure, Size
from hostile.figures import main

RESULTS = Path(__file__).parents[2] / "benchmarks" / "results" / "latest-crash.json"
KILLS, POWER_CUTS, STEPS, TRANSACTION_KILLS = 200, 10_000, 1_000_000, 60
DERIVED_CUTS, DERIVED_KILLS = 5_000, 200
DELAYED, DELAYED_PER_S, ROUNDS = 40_000, 20_000, 3
REPEATED_MAX = 120
PACE = 3_000


def kills_sync(size: Size) -> Figure:
    """Kill a broker with SYNC_FLUSH."""
    return _kills("SYNC_FLUSH", size)


def kills_async(size: Size) -> Figure:
    """Kill a broker with ASYNC_FLUSH."""
    return _kills("ASYNC_FLUSH", size)


def _kills(flush: str, size: Size) -> Figure:
    kills = size.of(KILLS)
    asked = (
        f"{flush}, {KILLS} kills -9, others while it starts; 0 acknowledged messages lost or out of order, none made up, "
        f"offsets dense, no commit goes back, at most {REPEATED_MAX} delayed messages again after one kill (60/s)"
    )
    with tempfile.TemporaryDirectory() as directory:
        with BrokerProcess(Path(directory), {"flushDiskType": flush, **SETTINGS}) as broker:
            load = Kills(broker, Random(size.seed), PACE)
            try:
                asyncio.run(load.run(kills))
                lost = "0 lost, 0 out of order"
            except Lost as error:
                lost = str(error)
    counts, again = load.counts, max(load.repeated, default=0)
    measured = (
        f"{counts['kills']} kills and {counts['kills while starting']} while starting; {counts['plain']:,} plain, "
        f"{counts['delayed']:,} delayed, {counts['returned']:,} returned messages, {counts['deletions']:,} topics deleted; "
        f"{lost}; at most {again} delayed again"
    )
    return Figure(asked=asked, measured=measured, reached=lost[0] == "0" and again <= REPEATED_MAX)


def kill_in_transactions(size: Size) -> Figure:
    """Kill producers and a broker in the midst of transactions."""
    kills, counts = size.of(TRANSACTION_KILLS), Counter[str]()
    outcome = "0 lost, 0 delivered that were not committed, 0 twice"
    for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"):
        with tempfile.TemporaryDirectory() as directory:
            load = transactions.Kills(Path(directory), Random(size.seed), flush=flush, pace=PACE)
            try:
                asyncio.run(load.run(max(3, kills // 2)))
            except Lost as error:
                outcome = f"{flush}: {error}"
        counts += load.counts
    return Figure(
        asked=f"{TRANSACTION_KILLS} kills -9 of a producer, a broker or both; each committed message is delivered once, and no other",
        measured=f"{counts['both']} kills of both, {counts['broker']} of the broker, {counts['producer']} of the producer; "
        f"{counts['transactions']:,} transactions, {counts['delivered']:,} messages delivered; {outcome}",
        reached=outcome[0] == "0",
    )


def kill_derived(size: Size) -> Figure:
    """Kill a broker in the midst of keyed messages, timers, pops, transactions and requests."""
    kills, counts, again = size.of(DERIVED_KILLS), Counter[str](), 0
    outcome = "0 lost"
    for flush in ("SYNC_FLUSH", "ASYNC_FLUSH"):
        with tempfile.TemporaryDirectory() as directory:
            load = derived_kills.Kills(Path(directory), Random(size.seed), flush=flush, pace=400)
            try:
                asyncio.run(load.run(max(1, kills // 2)))
            except* Lost as error:
                outcome = f"{flush}: {error.exceptions[0]}"
        counts += load.counts
        again = max(again, load.repeated)
    return Figure(
        asked=f"{DERIVED_KILLS} kills -9; acknowledged messages are found by key and id after each, every timer comes and none early, "
        f"at most {REPEATED_MAX} again after one kill (60/s), every popped message comes until it is acknowledged and not after, every commit once, every reply is that of its request",
        measured=f"{counts['kills']} kills; {counts['keyed']:,} keyed messages, {counts['look-ups']:,} look-ups "
        f"({counts['look-ups asked again']:,} asked again, {counts['look-ups unanswered']:,} of them after a time-out); "
        f"{counts['timers']:,} timers "
        f"({counts['timers again']:,} came again, at most {again} after one kill); {counts['popped']:,} popped; "
        f"{counts['transactions']:,} transactions; {counts['replies']:,} replies; {outcome}",
        reached=outcome[0] == "0" and again <= REPEATED_MAX,
    )


def cut_power(size: Size) -> Figure:
    """Cut the power of simulated disks."""
    counts, lost = power_cuts.cut(size.of(POWER_CUTS), size.seed)
    return Figure(
        asked=f"{POWER_CUTS:,} power cuts: any sector that was not synced is lost, kept or torn; 0 acknowledged messages lost "
        "with SYNC_FLUSH, with ASYNC_FLUSH only a tail after the last flush",
        measured=f"{counts['power cuts']:,} cuts, {counts['ends while starting']:,} while starting, in {counts['runs']:,} "
        f"runs; {lost or 'nothing lost'}",
        reached=not lost,
    )


def cut_power_of_derived(size: Size) -> Figure:
    """Cut the power under index, timers and POP."""
    counts, lost = play(derived_cuts.Simulation, size.of(DERIVED_CUTS), size.seed)
    return Figure(
        asked=f"{DERIVED_CUTS:,} power cuts, and kills: every message is found by its keys; every timer comes, none before its time or "
        "after it was taken back, none again of which a checkpoint tells; every popped message comes until it is acknowledged, and not after",
        measured=f"{counts['power cuts']:,} cuts, {counts['kills']:,} kills, {counts['ends while starting']:,} of both while starting; "
        f"{counts['keyed']:,} keyed messages, {counts['timers']:,} timers ({counts['timers again']:,} deliveries again), "
        f"{counts['popped']:,} popped ({counts['popped again']:,} again, from a copy that a cut had left); {lost or 'nothing lost'}",
        reached=not lost,
    )


def cut_power_of_delays(size: Size) -> Figure:
    """Cut the power under delayed messages."""
    counts, lost = play(delay_cuts.Simulation, size.of(DERIVED_CUTS), size.seed)
    return Figure(
        asked=f"{DERIVED_CUTS:,} power cuts, and kills: every delayed message comes, none before its time; a kill between two "
        "deliveries repeats none",
        measured=f"{counts['power cuts']:,} cuts, {counts['kills']:,} kills, {counts['ends while starting']:,} of both while starting; "
        f"{counts['delayed']:,} delayed messages ({counts['again']:,} deliveries again); {lost or 'nothing lost'}",
        reached=not lost,
    )


def deliver_delayed(size: Size) -> Figure:
    """Deliver delayed messages that are due at the same moment."""
    count, rates, outcome = size.of(DELAYED), [], ""
    for _ in range(ROUNDS):
        with tempfile.TemporaryDirectory() as directory:
            try:
                rates.append(delay_rate.deliver(Path(directory), count))
            except Loss as error:
                outcome = str(error)
                break
    rate = median(rates or [0])
    return Figure(
        asked=f"{DELAYED:,} delayed messages of 1 KiB and one level, due at the same moment: each comes once and in order, "
        f"{DELAYED_PER_S:,}/s (the median of {ROUNDS} times)",
        measured=f"{count:,} messages: {rate:,.0f}/s, the slowest time {min(rates or [0]):,.0f}/s; {outcome or 'each once, in order'}",
        reached=not outcome and rate >= DELAYED_PER_S,
    )


def play_model(size: Size) -> Figure:
    """Play random histories of the store."""
    try:
        counts, lost = model.play(size.of(STEPS), size.seed), ""
    except Loss as error:
        counts, lost = Counter(), str(error)
    return Figure(
        asked=f"{STEPS:,} steps of random histories: the store has what it promised after each of its ends",
        measured=f"{counts['steps']:,} steps, {counts['kills']:,} kills, {counts['power cuts']:,} power cuts, "
        f"{counts['ends while starting']:,} ends while starting, {counts['refused']:,} refusals by failing disks; "
        f"{lost or 'no difference'}",
        reached=not lost,
    )


def tear_files(_size: Size) -> Figure:
    """Cut every derived file at every byte."""
    cuts, lost = 0, []
    for end in ("kill -9", "a clean stop"):
        for path, length in damage.derived(end):
            for cut in range(length):
                for is_short in (True, False):
                    outcome, _ = damage.tear(end, path, cut, is_short=is_short)
                    cuts += 1
                    if outcome not in (damage.Outcome.WHOLE, damage.Outcome.REBUILT):
                        lost.append(f"{path} at {cut} after {end}: {outcome.value}")
    return Figure(
        asked="every file that is derived from the log, cut at every byte: nothing is missing",
        measured=f"{cuts:,} cuts; {'; '.join(lost[:3]) or 'nothing is missing'}",
        reached=not lost,
    )


def damage_records(size: Size) -> Figure:
    """Damage one record of each internal topic."""
    cases = record_damage.CASES[: max(1, size.of(len(record_damage.CASES)))]
    wrong = asyncio.run(record_damage.judge_all(cases))
    first = "".join(f"; first {case}: {verdict}" for case, verdict in list(wrong.items())[:1])
    return Figure(
        asked=f"{len(record_damage.CASES)} starts with one damaged record of delayed messages, timers, halves, popped messages or "
        "checkpoints, queues as they were or rebuilt: all others come, once, and health says so",
        measured=f"{len(cases) - len(wrong)} of {len(cases)} as asked{first}",
        reached=not wrong,
    )


def damage_files(_size: Size) -> Figure:
    """Damage every file of the store, and what the broker keeps next to its log."""
    disabled = logging.root.manager.disable
    logging.disable(logging.NOTSET)  # what a start says is heard by a handler: switched off, it would seem to be silent
    try:
        outcomes = Counter(damage.judge(case)[0] for case in damage.cases())
        outcomes += Counter(asyncio.run(broker_damage.judge_all()))
    finally:
        logging.disable(disabled)
    return Figure(
        asked="every file of store, tables, index and timers removed, emptied, zeroed, garbled, after kill -9 and a clean stop: no silent loss",
        measured="; ".join(f"{count} x {outcome.value}" for outcome, count in outcomes.most_common()),
        reached=not outcomes[damage.Outcome.SILENT],
    )


def fail_calls(_size: Size) -> Figure:
    """Let every system call fail with every error."""
    outcomes: Counter[faults.Outcome] = Counter()
    lost = ""
    try:
        for found in faults.all_while_sending(skips=8):
            outcomes[found] += 1
    except AssertionError as error:
        lost = str(error)
    return Figure(
        asked="each system call of the write path x each error x loop and flusher x once and for a while: typed refusals, "
        "nothing acknowledged that a power cut would take",
        measured="; ".join(f"{count} x {outcome.value}" for outcome, count in outcomes.most_common())
        + f"; {lost or 'nothing lost'}",
        reached=not lost,
    )


FIGURES: Mapping[str, Callable[[Size], Figure]] = {
    "kills-sync": kills_sync,
    "kills-async": kills_async,
    "kills-in-transactions": kill_in_transactions,
    "kills-derived": kill_derived,
    "power-cuts": cut_power,
    "derived-cuts": cut_power_of_derived,
    "delay-cuts": cut_power_of_delays,
    "delay-rate": deliver_delayed,
    "torn-files": tear_files,
    "damaged-files": damage_files,
    "damaged-records": damage_records,
    "failing-calls": fail_calls,
    "model": play_model,
}

if __name__ == "__main__":
    # What is cut, refused or failed is logged, and nothing else happens here.
    logging.getLogger("orbitmq").addHandler(logging.NullHandler())
    raise SystemExit(main("crash.figures", FIGURES, RESULTS, __doc__))
