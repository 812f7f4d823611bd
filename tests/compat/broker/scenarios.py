"""Random scenarios: each is told on topics and groups of its own, and ends by taking them away. Pure.

A scenario follows from its seed alone; what brokers answer does not influence it.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from random import Random
from typing import Any

from compat.broker import popping, querying, values
from compat.broker.spoiling import spoil
from compat.broker.steps import BINARY_CODE_MAX, BROKER_NAME, Step, Way
from compat.broker.values import BORN_AT, as_json, pick

STEPS = 60
"""Random steps of a scenario."""
TOPICS = {"\u00a7a": 4, "\u00a7b": 1, "\u00a7c": 2}
UNCHANGED = ("\u00a7a", "\u00a7b")
"""Topics that a scenario never takes the permission to be written from."""
GROUPS = ("\u00a7g", "\u00a7h")
CLIENTS = ("\u00a7client-0", "\u00a7client-1")
SHARED = ("TBW102", "SELF_TEST_TOPIC")
"""Topics that all scenarios can see."""
REPLY_TOPIC = "DefaultCluster_REPLY_TOPIC"
NOWHERE = "99999999999"
"""Beyond the end of every log."""
SPOILT = 0.07
PULL_COMMIT, PULL_SUSPEND, PULL_SUBSCRIPTION, PULL_CLASS_FILTER, PULL_LITE = 1, 2, 4, 8, 16


class Scenario:
    """The steps of one seed."""

    def __init__(self, seed: int) -> None:
        self.seed = seed
        self._returns: tuple[str, ...] = ()
        self.random = Random(seed)
        self.sent: Counter[tuple[str, int]] = Counter()
        self.stored: list[int] = []
        self.pops: list[tuple[int, str, str]] = []
        """Steps that popped messages, with the topic and the queue."""
        self._marks: list[int] = []
        self._made: list[str] = []
        self.steps: list[Step] = []
        self._begin()
        for _ in range(STEPS):
            self._add_one()
        self._end()

    def _begin(self) -> None:
        for topic, count in TOPICS.items():
            self._add(self._create(topic, count, count))
        for group in GROUPS[: self.random.choice((0, 1, 2, 2, 2))]:
            self._add(self._group_settings(group))
        self._add(self._group_settings(popping.GROUP))
        if self.random.random() < 0.5:
            members = [{**self._member(group), "messageModel": "CLUSTERING"} for group in GROUPS]
            self._add(
                Step(34, {}, as_json({"clientID": CLIENTS[0], "consumerDataSet": members, "producerDataSet": []}))
            )
            self._returns = tuple(f"{prefix}{group}" for prefix in ("%RETRY%", "%DLQ%") for group in GROUPS)
        self._mark()

    def _add_one(self) -> None:
        choose, weights = zip(*_WEIGHTS, strict=True)
        made = self.random.choices(choose, weights)[0](self)
        for step in made if isinstance(made, list) else [made]:
            if (
                step.way is Way.ASK
                and not step.is_oneway
                and not isinstance(made, list)
                and self.random.random() < SPOILT
            ):
                step = spoil(self.random, step)
            elif step.way is Way.ASK and step.code <= BINARY_CODE_MAX and self.random.random() < 0.1:
                step = replace(step, is_binary=True, language=self.random.choice(("JAVA", "GO", "CPP", "OTHER")))
            self._add(step)

    def _end(self) -> None:
        for code in (21, 201, 43):
            self._add(Step(code))
        for group in GROUPS:
            self._add(Step(208, {"consumerGroup": group}))
            self._add(Step(207, {"groupName": group, "cleanOffset": "true"}))
        self._add(Step(207, {"groupName": popping.GROUP, "cleanOffset": "true"}))
        for topic in (*TOPICS, *self._made, *(f"%RETRY%{group}" for group in GROUPS), *(f"%DLQ%{g}" for g in GROUPS)):
            self._add(Step(202, {"topic": topic}))
            self._add(Step(215, {"topic": topic}))

    def _add(self, step: Step) -> None:
        number = len(self.steps)
        self.steps.append(replace(step, number=number))
        if step.code in (10, 310, 320):
            self.stored.append(number)

    def next_number(self) -> int:
        """Return the number of the step that is added next."""
        return len(self.steps)

    # What steps are about.

    def own_topic(self) -> str:
        """Return a topic that may be sent to: what other scenarios can see would differ for ever, and only the broker sends
        dead letters."""
        topic = self.topic()
        return "\u00a7a" if topic in SHARED or topic.startswith("%DLQ%") else topic

    def topic(self) -> str:
        random = self.random
        if random.random() < 0.06:
            odd = ("\u00a7new", "\u00a7other", *SHARED, *self._returns, "no such", "")
            return random.choice(odd)
        return random.choice(tuple(TOPICS))

    def queue(self, topic: str) -> str:
        return pick(
            self.random, [str(number) for number in range(TOPICS.get(topic, 1))], ("-1", "1", "4", "7", "8", "900")
        )

    def group(self) -> str:
        return pick(self.random, GROUPS, ("\u00a7nobody", "", "a b", "TOOLS_CONSUMER", "CID_RMQ_SYS_x"), 0.05)

    def _offset(self, topic: str, queue: str) -> str:
        count = self.sent[topic, int(queue)]
        usual = [str(number) for number in range(count + 2)]
        return pick(self.random, usual, ("-1", "-100", "1000", "9223372036854775807", "-9223372036854775808"))

    def _share(self, topic: str, queue: str) -> str:
        """Return an offset that the queue has: ours takes none beyond the end."""
        return self.random.choice(("0", "0", *(f"\u27e8end:{topic}/{queue}/{share}\u27e9" for share in (50, 100, 100))))

    def link(self) -> int:
        return self.random.randrange(2)

    # Sends.

    def _send(self) -> Step:
        topic = self.own_topic()
        queue = self.queue(topic)
        if queue == "-1" and topic != "\u00a7b":
            queue = "0"  # the broker chooses: one of one
        sys_flag, body = 0, values.message_body(self.random)
        if self.random.random() < 0.05:
            sys_flag, body = values.compressed(self.random)
        elif self.random.random() < 0.04:
            sys_flag = self.random.choice((0x20, 0x40, 0x80, 0xC0, 0x400, 0x400))
        if self.random.random() < 0.04 and topic != "\u00a7b":
            topic = self.random.choice(("\u00a7new", "\u00a7other"))
            if topic not in self._made:
                self._made.append(topic)
            queue = "0"
        self.sent[topic, int(queue)] += 1
        fields = {
            "a": "\u00a7p",
            "b": topic,
            "c": pick(self.random, ("TBW102",), ("\u00a7a", "nowhere", ""), 0.05),
            "d": pick(self.random, ("4",), ("1", "0", "-1", "16", "1000"), 0.05),
            "e": queue,
            "f": str(sys_flag),
            "g": pick(self.random, (BORN_AT,), ("0", "-1", "9223372036854775807"), 0.03),
            "h": pick(self.random, ("0", "0", "7"), values.NUMBERS[:5], 0.05),
            "i": values.properties(self.random, self.next_number()),
            "j": pick(self.random, ("0",), ("1", "3", "16", "17", "-1"), 0.06),
            "k": "false",
            "m": "false",
        }
        if self.random.random() < 0.05:
            fields["l"] = self.random.choice(("0", "1", "16", "-1"))
        if self.random.random() < 0.3:
            fields["n"] = BROKER_NAME
        if self.random.random() < 0.2:
            return Step(10, long_names(fields), body, link=self.link())
        return Step(310, fields, body, link=self.link())

    def _send_soon(self) -> Step:
        topic = self.random.choice(UNCHANGED)  # nothing odd: what becomes of it is not told
        return replace(self.plain_send(topic, self.random.randrange(TOPICS[topic]), "red"), is_oneway=True)

    def _batch(self) -> Step:
        topic = self.own_topic()
        queue = self.queue(topic)
        if queue == "-1":
            queue = "0"
        self.sent[topic, int(queue)] += 3
        fields = {
            "a": "\u00a7p",
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": queue,
            "f": "0",
            "g": BORN_AT,
            "h": "0",
            "i": self.random.choice(("", "", "from-the-header\x013\x02")),
            "j": "0",
            "k": "false",
            "m": "true",
        }
        code = 320 if self.random.random() < 0.8 else 310
        return Step(code, fields, values.batch_body(self.random, self.next_number()), link=self.link())

    def _send_back(self) -> Step:
        fields = {
            "offset": f"\u27e8offset:{self.random.choice(self.stored[-20:])}\u27e9" if self.stored else NOWHERE,
            "group": self.group(),
            "delayLevel": pick(self.random, ("15", "16", "18"), ("-1", "19", "100", "-5"), 0.3),
            "originMsgId": "0" * 32,
            "originTopic": self.topic(),
            "unitMode": "false",
            "maxReconsumeTimes": pick(self.random, ("16",), ("0", "-1", "1"), 0.3),
        }
        if self.random.random() < 0.2:
            del fields["maxReconsumeTimes"]
        if self.random.random() < 0.05:
            fields["offset"] = self.random.choice(("-1", NOWHERE, "9223372036854775807"))
        return Step(36, fields, link=self.link())

    def _reply(self) -> Step:
        client = pick(self.random, CLIENTS, ("nobody", ""), 0.2)
        properties = {
            "REPLY_TO_CLIENT": client,
            "CORRELATION_ID": f"c-{self.next_number()}",
            "MSG_TYPE": "reply",
            "TTL": "3000",
        }
        if self.random.random() < 0.15:
            del properties["REPLY_TO_CLIENT"]
        fields = {
            "a": "\u00a7p",
            "b": pick(self.random, ("\u00a7b",), (REPLY_TOPIC,), 0.0),
            "c": "TBW102",
            "d": "4",
            "e": "0",
            "f": "0",
            "g": BORN_AT,
            "h": "0",
            "i": "".join(f"{name}\x01{value}\x02" for name, value in properties.items()),
            "j": "0",
            "k": "false",
            "m": "false",
        }
        self.sent["\u00a7b", 0] += 1
        body = values.message_body(self.random)
        return Step(325, fields, body) if self.random.random() < 0.7 else Step(324, long_names(fields), body)

    def _transaction(self) -> list[Step]:
        """A half message and, mostly, what its producer decides."""
        send = self.plain_send("\u00a7a", self.random.randrange(4), "red")
        number = self.next_number()
        fields = dict(send.fields)
        fields["i"] += "TRAN_MSG\x01true\x02PGROUP\x01\u00a7p\x02"
        fields["f"] = self.random.choice(("4", "4", "0"))
        decision = {
            "topic": "\u00a7a",
            "producerGroup": pick(self.random, ("\u00a7p",), ("\u00a7other",), 0.1),
            "tranStateTableOffset": f"\u27e8place:{number}\u27e9",
            "commitLogOffset": f"\u27e8offset:{number}\u27e9",
            "commitOrRollback": self.random.choice(("8", "8", "12")),
            "fromTransactionCheck": self.random.choice(("false", "true")),
            "msgId": f"7F000001{number:024X}",
            "transactionId": f"7F000001{number:024X}",
        }
        if self.random.random() < 0.1:
            decision["tranStateTableOffset"] = NOWHERE
        if self.random.random() < 0.05:
            decision["commitLogOffset"] = self.random.choice(("-1", NOWHERE))
        decide = Step(37, decision)
        return [replace(send, fields=fields), *[decide] * self.random.choice((0, 1, 1, 1, 1, 2))]

    # Reading.

    def _pull(self) -> Step:
        topic = self.topic()
        queue = self.queue(topic)
        flag = self.random.choice(
            (0, PULL_SUBSCRIPTION, PULL_SUBSCRIPTION, PULL_SUBSCRIPTION | PULL_COMMIT, PULL_COMMIT)
        )
        if self.random.random() < 0.05:
            flag |= self.random.choice((PULL_CLASS_FILTER, PULL_LITE, 32))
        fields = {
            "consumerGroup": self.group(),
            "topic": topic,
            "queueId": queue,
            "queueOffset": self._offset(topic, queue),
            "maxMsgNums": pick(self.random, ("32", "32", "1", "3"), ("0", "-1", "100", "2147483647")),
            "sysFlag": str(flag),
            "commitOffset": self._share(topic, queue),
            "suspendTimeoutMillis": "0",
            "subscription": values.tag_expression(self.random),
            "subVersion": pick(self.random, ("0", "1"), ("-1", "99", "9223372036854775807"), 0.1),
            "expressionType": "TAG",
        }
        chance = self.random.random()
        if chance < 0.2:
            fields |= {"expressionType": "SQL92", "subscription": values.sql_expression(self.random)}
        elif chance < 0.25:
            del fields["expressionType"]
        if self.random.random() < 0.1:
            fields["maxMsgBytes"] = self.random.choice(("100", "1000", "1", "0", "-1", "4194304"))
        if self.random.random() < 0.1:
            fields["bname"] = BROKER_NAME
        return Step(361 if self.random.random() < 0.1 else 11, fields, link=self.link())

    def _wait_for_a_message(self) -> list[Step]:
        """A pull that waits, a send that wakes it (or one of a tag that it does not want before), and its answer."""
        random = self.random
        queue = random.randrange(4)
        topic = "\u00a7a"
        offset = f"\u27e8end:{topic}/{queue}/100\u27e9"
        fields = {
            "consumerGroup": "\u00a7g",
            "topic": topic,
            "queueId": str(queue),
            "queueOffset": offset,
            "maxMsgNums": "32",
            "sysFlag": str(PULL_SUSPEND | PULL_SUBSCRIPTION),
            "commitOffset": "0",
            "suspendTimeoutMillis": "20000",
            "subscription": random.choice(("*", "red", "red || blue")),
            "subVersion": "0",
            "expressionType": "TAG",
        }
        # A new group is made first: its first pull might wait for that, and see what comes meanwhile.
        steps = [self._group_settings("\u00a7g"), Step(11, fields, link=1, way=Way.HOLD)]
        held = self.next_number() + 1
        if fields["subscription"] != "*" and random.random() < 0.6:
            steps.append(self.plain_send(topic, queue, "green"))
        steps.append(self.plain_send(topic, queue, "red"))
        return [*steps, Step(held, link=1, way=Way.FETCH)]

    def plain_send(self, topic: str, queue: int, tag: str) -> Step:
        self.sent[topic, queue] += 1
        fields = {
            "a": "\u00a7p",
            "b": topic,
            "c": "TBW102",
            "d": "4",
            "e": str(queue),
            "f": "0",
            "g": BORN_AT,
            "h": "0",
        }
        properties = f"UNIQ_KEY\x017F000001{self.next_number():024X}\x02TAGS\x01{tag}\x02"
        return Step(310, {**fields, "i": properties, "j": "0", "k": "false", "m": "false"}, b"wake up")

    def _view(self) -> Step:
        offset = f"\u27e8offset:{self.random.choice(self.stored[-20:])}\u27e9" if self.stored else NOWHERE
        fields = {"offset": pick(self.random, (offset,), ("-1", NOWHERE), 0.1), "topic": self.topic()}
        if self.random.random() < 0.3:
            del fields["topic"]  # as clients before 4.9 ask
        return Step(33, fields)

    def _offsets(self) -> Step:
        topic = self.topic()
        fields = {"topic": topic, "queueId": self.queue(topic)}
        code = self.random.choice((29, 29, 30, 30, 31, 32))
        if code == 29:
            mark = f"\u27e8time:{self.random.choice(self._marks)}\u27e9"
            fields["timestamp"] = pick(
                self.random, (mark,), ("0", "-1", "9223372036854775807", "-9223372036854775808"), 0.15
            )
            boundary = self.random.choice((None, "lower", "upper", "LOWER", "UPPER", "middle", ""))
            if boundary is not None:
                fields["boundaryType"] = boundary
        if code == 30 and self.random.random() < 0.4:
            fields["committed"] = "true"
        return Step(code, fields)

    def _mark(self) -> Step | None:
        self._marks.append(self.next_number())
        self._add(Step(way=Way.MARK))
        return None

    def _mark_the_time(self) -> list[Step]:
        self._marks.append(self.next_number())
        return [Step(way=Way.MARK)]

    # Groups.

    def _commit(self) -> Step:
        topic = self.topic()
        queue = self.queue(topic)
        fields = {"consumerGroup": self.group(), "topic": topic, "queueId": queue}
        fields["commitOffset"] = self._share(topic, queue)
        step = Step(15, fields, link=self.link())
        if self.random.random() < 0.3:  # nothing odd: what becomes of it is not told
            return replace(
                step,
                fields={
                    **fields,
                    "consumerGroup": self.random.choice(GROUPS),
                    "queueId": "0",
                    "commitOffset": self._share(topic, "0"),
                },
                is_oneway=True,
            )
        return step

    def _committed(self) -> Step:
        topic = self.topic()
        fields = {"consumerGroup": self.group(), "topic": topic, "queueId": self.queue(topic)}
        zero = self.random.choice((None, None, "true", "false"))
        if zero is not None:
            fields["setZeroIfNotFound"] = zero
        return Step(14, fields, link=self.link())

    def _heartbeat(self) -> Step:
        link = self.link()
        groups = [self._member(group) for group in self.random.sample(GROUPS, self.random.randrange(3))]
        producers = [{"groupName": "\u00a7p"}] if self.random.random() < 0.6 else []
        body: dict[str, Any] = {"clientID": CLIENTS[link], "consumerDataSet": groups, "producerDataSet": producers}
        if self.random.random() < 0.3:
            body |= {"heartbeatFingerprint": self.random.choice((0, 0, 5)), "withoutSub": self.random.random() < 0.1}
        return Step(34, {}, as_json(body), link=link)

    def _member(self, group: str) -> dict[str, Any]:
        topics = self.random.sample(tuple(TOPICS), self.random.randrange(3))
        return {
            "groupName": group,
            "consumeFromWhere": self.random.choice(("CONSUME_FROM_LAST_OFFSET", "CONSUME_FROM_FIRST_OFFSET")),
            "consumeType": pick(self.random, ("CONSUME_PASSIVELY", "CONSUME_ACTIVELY"), ("CONSUME_POP",), 0.03),
            "messageModel": pick(self.random, ("CLUSTERING",), ("BROADCASTING",), 0.15),
            "unitMode": False,
            "subscriptionDataSet": [self._subscription(topic) for topic in topics],
        }

    def _subscription(self, topic: str) -> dict[str, Any]:
        expression = values.tag_expression(self.random) or "*"
        kind = "TAG"
        if self.random.random() < 0.2:
            kind, expression = "SQL92", values.sql_expression(self.random)
        tags = (
            [tag.strip() for tag in expression.split("||") if tag.strip()]
            if kind == "TAG" and expression != "*"
            else []
        )
        return {
            "topic": topic,
            "subString": expression,
            "expressionType": kind,
            "subVersion": self.random.choice((0, 1, 2, 3)),
            "classFilterMode": False,
            "tagsSet": tags,
            "codeSet": [java_hash(tag) for tag in tags],
        }

    def _check(self) -> Step:
        data = self._subscription(self.topic())
        return Step(46, {}, as_json({"clientId": CLIENTS[0], "group": self.group(), "subscriptionData": data}))

    def _leave(self) -> Step:
        link = self.link()
        fields = {"clientID": CLIENTS[link]}
        chance = self.random.random()
        if chance < 0.7:
            fields["consumerGroup"] = self.group()
        if chance > 0.5:
            fields["producerGroup"] = "\u00a7p"
        return Step(35, fields, link=link)

    def _ask_about_clients(self) -> Step:
        code = self.random.choice((38, 203, 204))
        return Step(
            code, {"producerGroup" if code == 204 else "consumerGroup": "\u00a7p" if code == 204 else self.group()}
        )

    def _lock(self) -> Step:
        queues = []
        for _ in range(self.random.randrange(4)):
            topic = self.topic()
            name = pick(self.random, (BROKER_NAME,), ("elsewhere",), 0.05)
            queues.append({"topic": topic, "brokerName": name, "queueId": int(self.queue(topic))})
        body: dict[str, Any] = {
            "consumerGroup": self.group(),
            "clientId": self.random.choice(CLIENTS),
            "mqSet": queues,
            "onlyThisBroker": self.random.random() < 0.3,
        }
        return Step(self.random.choice((41, 41, 42)), {}, as_json(body))

    def _group_settings(self, group: str) -> Step:
        body = {
            "groupName": group,
            "consumeEnable": self.random.random() < 0.95,
            "consumeFromMinEnable": True,
            "consumeBroadcastEnable": self.random.random() < 0.7,
            "consumeMessageOrderly": False,
            "retryQueueNums": 1,
            "retryMaxTimes": self.random.choice((16, 16, 0, 2, -1)),
            "brokerId": 0,
            "whichBrokerWhenConsumeSlowly": self.random.choice((1, 1, 2)),
            "notifyConsumerIdsChangedEnable": True,
            "groupSysFlag": self.random.choice((0, 0, 1)),
            "consumeTimeoutMinute": 15,
        }
        for name in list(body):
            if name != "groupName" and self.random.random() < 0.03:
                del body[name]
        return Step(200, {}, as_json(body))

    def _settle_a_group(self) -> Step:
        return self._group_settings(self.group())

    def _ask_about_a_group(self) -> Step:
        group = self.group()
        kind = self.random.randrange(5)
        if kind == 0:
            fields = {"groupName": group}
            if self.random.random() < 0.5:
                fields["cleanOffset"] = self.random.choice(("true", "false"))
            return Step(207, fields)
        if kind == 1:
            return Step(208, {"consumerGroup": group} | ({"topic": self.topic()} if self.random.random() < 0.6 else {}))
        return Step(352, {"group": group})

    # Topics.

    def _create(self, topic: str, read_count: int, write_count: int) -> Step:
        fields = {
            "topic": topic,
            "defaultTopic": "TBW102",
            "readQueueNums": str(read_count),
            "writeQueueNums": str(write_count),
            "perm": "6",
            "topicFilterType": "SINGLE_TAG",
            "topicSysFlag": "0",
            "order": "false",
            "attributes": "",
            "force": "false",
        }
        return Step(17, fields)

    def _change_a_topic(self) -> Step:
        topic = pick(
            self.random,
            ("\u00a7c",),
            ("\u00a7new", "TBW102", "", "a b", "SELF_TEST_TOPIC", "\u00a7" + "x" * 125, "%RETRY%\u00a7h"),
            0.3,
        )
        if topic == "\u00a7new" and topic not in self._made:
            self._made.append(topic)
        step = self._create(topic, self.random.choice((1, 2, 3, 8)), self.random.choice((1, 2, 3)))
        fields = dict(step.fields)
        fields["perm"] = pick(self.random, ("6",), ("2", "4", "0", "7", "3"), 0.3)
        fields["order"] = pick(self.random, ("false",), ("true" if topic == "\u00a7new" else "x",))
        fields["topicFilterType"] = pick(self.random, ("SINGLE_TAG",), ("MULTI_TAG", "x", ""))
        fields["attributes"] = pick(
            self.random,
            ("", "", "+message.type=NORMAL", "+message.type=DELAY"),
            ("+message.type=x", "-message.type", "message.type=FIFO", "+unknown=1", "+cleanup.policy=DELETE", "+", "x"),
            0.2,
        )
        fields["topicSysFlag"] = pick(self.random, ("0",), ("1", "2", "3"), 0.1)
        return Step(17, fields)

    def _ask_about_topics(self) -> Step:
        code = self.random.choice((21, 202, 202, 300, 300, 305, 351, 351))
        return Step(code, {} if code in (21, 305) else {"topic": self.topic()})

    def _delete_a_topic(self) -> Step:
        return Step(
            215, {"topic": pick(self.random, ("\u00a7new", "\u00a7other"), ("\u00a7c", "TBW102", "nobody's", ""), 0.3)}
        )

    def _administrate(self) -> Step:
        return Step(self.random.choice((26, 28, 43, 201, 306, 316, 329)))

    def _ask_nonsense(self) -> Step:
        return Step(self.random.choice((9999, 0, -1, 32767, 2, 105, 103, 39, 40)), {"topic": "\u00a7a"})


LONG_NAMES = {
    "a": "producerGroup",
    "b": "topic",
    "c": "defaultTopic",
    "d": "defaultTopicQueueNums",
    "e": "queueId",
    "f": "sysFlag",
    "g": "bornTimestamp",
    "h": "flag",
    "i": "properties",
    "j": "reconsumeTimes",
    "k": "unitMode",
    "l": "maxReconsumeTimes",
    "m": "batch",
    "n": "bname",
}


def long_names(fields: dict[str, str]) -> dict[str, str]:
    """Return a send's fields under the names that older clients use."""
    return {LONG_NAMES[name]: value for name, value in fields.items()}


def java_hash(text: str) -> int:
    """Return what String.hashCode returns."""
    code = 0
    for letter in text:
        code = (31 * code + ord(letter)) & 0xFFFFFFFF
    return code - (1 << 32) if code >> 31 else code


_WEIGHTS: tuple[tuple[Callable[[Scenario], Any], float], ...] = (
    (Scenario._send, 26),
    (Scenario._send_soon, 2),
    (Scenario._batch, 6),
    (Scenario._send_back, 4),
    (Scenario._reply, 3),
    (Scenario._transaction, 2),
    (Scenario._pull, 18),
    (Scenario._wait_for_a_message, 0.4),
    (Scenario._view, 2),
    (Scenario._offsets, 8),
    (querying.query, 5),
    (querying.look_at_a_queue, 2),
    (querying.send_for_later, 2),
    (popping.pop, 6),
    (popping.acknowledge, 4),
    (popping.acknowledge_batch, 2),
    (popping.change_time, 2),
    (popping.ask, 2),
    (popping.wait_for_a_pop, 0.4),
    (popping.assign, 2),
    (Scenario._mark_the_time, 3),
    (Scenario._commit, 5),
    (Scenario._committed, 5),
    (Scenario._heartbeat, 6),
    (Scenario._check, 2),
    (Scenario._leave, 2),
    (Scenario._ask_about_clients, 4),
    (Scenario._lock, 3),
    (Scenario._settle_a_group, 2),
    (Scenario._ask_about_a_group, 4),
    (Scenario._change_a_topic, 3),
    (Scenario._ask_about_topics, 4),
    (Scenario._delete_a_topic, 1),
    (Scenario._administrate, 1),
    (Scenario._ask_nonsense, 1),
)
