"""Random scenarios of administrators: each is told on topics, groups and users of its own, and ends by taking them away. Pure.

A scenario follows from its seed alone; what brokers answer does not influence it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from compat.admin import access, choices, clients, figures, groups, offsets, topics
from compat.broker.spoiling import spoil
from compat.broker.steps import BINARY_CODE_MAX, Step, Way
from compat.broker.values import as_json

STEPS = 70
"""Random steps of a scenario."""
SPOILT = 0.08
UNSPOILT = {25, 34, 35, 36, 310, 316}
"""What a spoilt one would do to other scenarios, or says nothing about administration."""


class Scenario:
    """The steps of one seed, to brokers without users."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.steps: list[Step] = []
        self.stored: list[int] = []
        self.marks: list[int] = []
        self._begin()
        for _ in range(STEPS):
            self._add_one()
        self._end()

    def _begin(self) -> None:
        for topic, count in choices.TOPICS.items():
            self.add(topics.create(topic, count))
        for group in choices.GROUPS[: self.random.choice((1, 2, 2))]:
            self.add(Step(200, {}, as_json({"groupName": group})))
        self.mark()
        for _ in range(self.random.randrange(6)):
            self.add(self._send())
        for _ in range(self.random.randrange(3)):
            self.add(clients.heartbeat(self.random))
        self.mark()

    def _add_one(self) -> None:
        makers, weights = zip(*_WEIGHTS, strict=True)
        step = self.random.choices(makers, weights)[0](self)
        if step is None:
            self.mark()
            return
        if self.random.random() < SPOILT and step.code not in UNSPOILT:
            step = spoil(self.random, step)
        elif step.code <= BINARY_CODE_MAX and self.random.random() < 0.06:
            step = replace(step, is_binary=True)
        self.add(step)

    def _end(self) -> None:
        for code in (21, 201, 43, 317, 328):
            self.add(Step(code))
        for group in (*choices.GROUPS, *choices.NEW_GROUPS):
            self.add(Step(208, {"consumerGroup": group}))
            for link, client in enumerate(choices.CLIENTS):
                self.add(Step(35, {"clientID": client, "consumerGroup": group, "producerGroup": "\u00a7p"}, link=link))
            self.add(Step(207, {"groupName": group, "cleanOffset": "true"}))
        retries = [f"{prefix}{group}" for prefix in ("%RETRY%", "%DLQ%") for group in choices.GROUPS]
        for topic in (*choices.TOPICS, *choices.NEW_TOPICS, *retries):
            self.add(Step(202, {"topic": topic}))
            self.add(Step(215, {"topic": topic}))

    def add(self, step: Step) -> None:
        """Add a step, with its number."""
        number = len(self.steps)
        self.steps.append(replace(step, number=number))
        if step.code == 310:
            self.stored.append(number)

    def mark(self) -> None:
        """Let the moment be remembered."""
        self.marks.append(len(self.steps))
        self.add(Step(way=Way.MARK))

    def _send(self) -> Step:
        return offsets.send(self.random, len(self.steps))


class GuardedScenario:
    """The steps of one seed, to brokers that check signatures and rights."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self.random = Random(seed)
        self.steps: list[Step] = []
        self._begin()
        makers, weights = zip(*_GUARDED_WEIGHTS, strict=True)
        for _ in range(STEPS):
            step = self.random.choices(makers, weights)[0](self.random)
            self.add(spoil(self.random, step) if self.random.random() < 0.04 else step)
        self._end()

    def _begin(self) -> None:
        for topic, count in choices.TOPICS.items():
            self._govern(topics.create(topic, count))
        for group in choices.GROUPS:
            self._govern(Step(200, {}, as_json({"groupName": group})))
        for name in access.USERS[: self.random.choice((1, 2))]:
            self._govern(Step(3001, {"username": name}, as_json({"username": name, "password": access.SECRETS[0]})))

    def _end(self) -> None:
        for name in (*access.USERS, "\u00a7nobody"):
            self._govern(Step(3009, {"subject": f"User:{name}"}))
            self._govern(Step(3004, {"username": name}))
            self._govern(Step(3003, {"username": name}))
        for topic in (*choices.TOPICS, *choices.NEW_TOPICS):
            self._govern(Step(215, {"topic": topic}))
        for group in choices.GROUPS:
            self._govern(Step(207, {"groupName": group, "cleanOffset": "true"}))

    def _govern(self, step: Step) -> None:
        self.add(replace(step, user=access.ROOT[0], secret=access.ROOT[1]))

    def add(self, step: Step) -> None:
        """Add a step, with its number."""
        self.steps.append(replace(step, number=len(self.steps)))


_WEIGHTS: tuple[tuple[Callable[[Scenario], Any], float], ...] = (
    (lambda scenario: topics.change(scenario.random), 10),
    (lambda scenario: topics.change_many(scenario.random), 4),
    (lambda scenario: topics.delete(scenario.random), 4),
    (lambda scenario: topics.ask(scenario.random), 9),
    (lambda scenario: groups.settle(scenario.random), 6),
    (lambda scenario: groups.settle_many(scenario.random), 3),
    (lambda scenario: groups.delete(scenario.random), 3),
    (lambda scenario: groups.ask(scenario.random), 8),
    (lambda scenario: groups.forbid(scenario.random), 4),
    (lambda scenario: groups.copy(scenario.random), 4),
    (lambda scenario: groups.read_mode(scenario.random), 2),
    (lambda scenario: offsets.commit(scenario.random, 0), 6),
    (lambda scenario: offsets.ask(scenario.random, scenario.marks), 8),
    (lambda scenario: offsets.progress(scenario.random), 10),
    (lambda scenario: offsets.reset(scenario.random, scenario.marks), 6),
    (lambda scenario: offsets.messages(scenario.random, scenario.stored, scenario.marks), 6),
    (lambda scenario: offsets.send(scenario.random, len(scenario.steps)), 6),
    (lambda scenario: clients.heartbeat(scenario.random), 5),
    (lambda scenario: clients.leave(scenario.random), 2),
    (lambda scenario: clients.ask(scenario.random), 6),
    (lambda scenario: clients.inquire(scenario.random, scenario.stored), 6),
    (lambda scenario: clients.lock(scenario.random), 4),
    (lambda scenario: figures.configure(scenario.random), 2),
    (lambda scenario: figures.ask(scenario.random), 4),
    (lambda scenario: figures.clean(scenario.random), 2),
    (lambda scenario: figures.nonsense(scenario.random), 1),
    (lambda scenario: None, 2),
)
_GUARDED_WEIGHTS: tuple[tuple[Callable[[Random], Step], float], ...] = (
    (access.user, 20),
    (access.rules, 25),
    (access.guarded, 30),
    (lambda random: access.signed(random, topics.change(random)), 6),
    (lambda random: access.signed(random, groups.settle(random)), 4),
    (lambda random: access.signed(random, groups.forbid(random)), 3),
)
