"""One of the two brokers, as a scenario talks to it: connections, what it pushes, and what marks stand for there."""

from __future__ import annotations

import re
import select
import socket
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from compat.broker.steps import BROKER_NAME, PREFIX_MARK, Step
from orbitmq.address import parse_address
from orbitmq.codes import RequestCode
from orbitmq.errors import FrameError
from orbitmq.wire.command import FLAG_ONEWAY, FLAG_RESPONSE, Command, SerializeType, decode_command, encode_command
from orbitmq.wire.frame import PREFIX, FrameDecoder
from orbitmq.wire.messages.recall_handle import RecallHandle, format_recall_handle
from orbitmq.wire.pop.handles import Handle, PoppedQueue, format_handle, parse_popped_queues
from orbitmq.wire.signature import Credentials, sign

UNKNOWN_ID = f"{99_999_999_999:032X}"
"""Of a message that was not stored, or was not sent in this telling: beyond the end of every log."""
LAST = {"a": "p", "b": "last", "c": "TBW102", "d": "1", "e": "0", "f": "0", "g": "1", "h": "0", "i": "", "j": "0"}
LAST_QUEUE = {"topic": "last", "queueId": "0"}
MESSAGE_ID_LENGTH = 32
NO_RECALL = format_recall_handle(RecallHandle("nowhere", BROKER_NAME, "1700000000000", "0" * 32))
"""Of a message that does not wait for a time."""
NO_HANDLE = Handle(0, 1_700_000_000_000, 1_200_000, 0, "0", BROKER_NAME, 0, 0)
"""Of a message that was not popped."""
TIMEOUT_S = 30
LINKS = 2
MARK = re.compile("\u27e8(\\w+):(-?\\d+)(?:/(\\d+))?\u27e9")
END = re.compile("\u27e8end:(.*)/(-?\\d+)/(\\d+)\u27e9")


class Silence(Exception):
    """The broker did not answer in time."""


@dataclass(frozen=True)
class Closed:
    """The broker closed the connection instead of answering."""


Outcome = Command | Closed | None


class Link:
    """One connection to a broker."""

    def __init__(self, address: str) -> None:
        self.socket = socket.create_connection(parse_address(address), TIMEOUT_S)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.decoder = FrameDecoder()
        self.answers: dict[int, Command] = {}
        self.is_closed = False

    def take(self) -> list[Command]:
        """Read what is there; returns the requests of the broker."""
        try:
            data = self.socket.recv(1 << 20)
        except ConnectionError:
            data = b""
        if not data:
            self.is_closed = True
            return []
        pushed = []
        for frame in self.decoder.feed(data):
            command = decode_command(frame)
            if command.is_response:
                self.answers[command.opaque] = command
            else:
                pushed.append(command)
        return pushed


@dataclass
class Memory:
    """What a scenario's marks stand for on one broker."""

    prefix: str
    message_ids: dict[int, str] = field(default_factory=dict)
    places: dict[int, str] = field(default_factory=dict)
    """Queue offsets."""
    times: dict[int, int] = field(default_factory=dict)
    recalls: dict[int, str] = field(default_factory=dict)
    """Handles of messages that wait for their time."""
    popped: dict[int, list[Handle]] = field(default_factory=dict)
    """Handles of popped messages."""

    def fill(self, text: str) -> str:
        """Replace the marks."""
        if "\u27e8" in text:
            text = MARK.sub(self._value, text)
        return text.replace(PREFIX_MARK, self.prefix)

    def fill_bytes(self, data: bytes) -> bytes:
        """Replace the marks in a body of text."""
        if (b"\xc2\xa7" not in data and b"\xe2\x9f\xa8" not in data) or not data.startswith((b"{", b"[")):
            return data
        try:
            return self.fill(data.decode()).encode()
        except UnicodeDecodeError:
            return data

    def _value(self, mark: re.Match[str]) -> str:
        kind, number = mark[1], int(mark[2])
        if kind == "place":
            return self.places.get(number, "99999999999")
        if kind == "time":
            return str(self.times.get(number, 0))
        if kind == "later":
            return str(time.time_ns() // 1_000_000 + number * 1_000)
        if kind == "recall":
            return self.recalls.get(number, NO_RECALL)
        if mark[3] is not None:
            return self._of_popped(kind, number, int(mark[3]))
        message_id = self.message_ids.get(number, UNKNOWN_ID)
        if kind == "id":
            return message_id
        return str(int(message_id[-16:], 16))

    def _of_popped(self, kind: str, number: int, place: int) -> str:
        handles = self.popped.get(number, [])
        handle = handles[place] if place < len(handles) else NO_HANDLE
        if kind == "handle":
            return format_handle(handle)
        values = {
            "popped": handle.queue_offset,
            "start": handle.start_offset,
            "revive": handle.revive_queue_id,
            "poptime": handle.pop_time_ms,
            "invisible": handle.invisible_ms,
        }
        return str(values[kind])

    def keep(self, number: int, code: int, fields: Mapping[str, str]) -> None:
        """Remember what an answer gives to a later step."""
        message_id = fields.get("msgId", "").split(",")[0]
        if len(message_id) == MESSAGE_ID_LENGTH and "queueOffset" in fields:
            self.message_ids[number] = message_id
            self.places[number] = fields["queueOffset"]
        if "recallHandle" in fields:
            self.recalls[number] = fields["recallHandle"]
        if code == RequestCode.POP_MESSAGE:
            self.popped[number] = [
                handle
                for queue in parse_popped_queues(fields.get("startOffsetInfo"), fields.get("msgOffsetInfo"))
                for handle in _handles(queue, fields)
            ]


def _handles(queue: PoppedQueue, fields: Mapping[str, str]) -> list[Handle]:
    times = int(fields["popTime"]), int(fields["invisibleTime"])
    return [
        Handle(queue.start_offset, *times, int(fields["reviveQid"]), queue.retry, BROKER_NAME, queue.queue_id, offset)
        for offset in queue.offsets
    ]


def say_yes(request: Command) -> Command:
    """Answer what a broker asks with success."""
    return Command(0, request.opaque, FLAG_RESPONSE)


class Side:
    """A broker and the links of the scenario that is told.

    Args:
        answer: what a client answers to what the broker asks.
        superuser: who signs what is asked besides the scenario, where brokers ask for signatures.
    """

    def __init__(
        self,
        name: str,
        address: str,
        *,
        answer: Callable[[Command], Command] = say_yes,
        superuser: Credentials | None = None,
    ) -> None:
        self.name, self.address = name, address
        self._answer = answer
        self._superuser = superuser
        self.memory = Memory("")
        self.pushed: list[Command] = []
        self.stray: list[str] = []
        self._links: list[Link] = []
        self._opaques: dict[int, tuple[int, int]] = {}
        self._codes: dict[int, int] = {}
        self._last_opaque = 0

    def begin(self, prefix: str) -> None:
        """Open fresh links."""
        self.end()
        self.memory = Memory(prefix)
        self.pushed, self.stray = [], []
        self._opaques = {}
        self._links = [Link(self.address) for _ in range(LINKS)]

    def end(self) -> None:
        """Close the links."""
        for link in self._links:
            link.socket.close()
        self._links = []

    def reopen(self, place: int) -> None:
        """Close a link, and open it again."""
        self._links[place].socket.close()
        self._links[place] = Link(self.address)

    def send(self, step: Step) -> None:
        """Send a step's request."""
        for name in ("queueOffset", "commitOffset"):
            if (mark := END.fullmatch(step.fields.get(name, ""))) is not None:
                step = replace(step, fields={**step.fields, name: self._share(mark)})
        self._last_opaque += 1
        if self._links[step.link].is_closed:
            self.reopen(step.link)
        self._opaques[step.number] = (step.link, self._last_opaque)
        self._codes[step.number] = step.code
        frame = self._encode(step, self._last_opaque)
        try:
            self._links[step.link].socket.sendall(frame)
        except ConnectionError:
            self._links[step.link].is_closed = True

    def _share(self, mark: re.Match[str]) -> str:
        answer = self.ask(RequestCode.GET_MAX_OFFSET, {"topic": mark[1], "queueId": mark[2]})
        end = int((answer.ext_fields or {}).get("offset", 0))
        return str(end * int(mark[3]) // 100)

    def _encode(self, step: Step, opaque: int) -> bytes:
        if step.header is not None:
            header = self.memory.fill_bytes(step.header.replace(b"OPAQUE", str(opaque).encode()))
            body = self.memory.fill_bytes(step.body)
            return PREFIX.pack(4 + len(header) + len(body), len(header)) + header + body
        fill = self.memory.fill
        fields, body = {name: fill(text) for name, text in step.fields.items()}, self.memory.fill_bytes(step.body)
        if step.user:
            fields = sign(fields, body, Credentials(fill(step.user), fill(step.secret)))
        command = Command(
            step.code,
            opaque,
            FLAG_ONEWAY if step.is_oneway else 0,
            ext_fields=fields,
            body=body,
            language=step.language,
            version=step.version,
            serialize_type=SerializeType.ROCKETMQ if step.is_binary else SerializeType.JSON,
        )
        return encode_command(command)

    def receive(self, number: int) -> Outcome:
        """Return the answer to the step of this number.

        Raises:
            Silence: there is none in time.
        """
        place, opaque = self._opaques[number]
        link = self._links[place]
        deadline = time.monotonic() + TIMEOUT_S
        while opaque not in link.answers:
            if link.is_closed:
                return Closed()
            if time.monotonic() > deadline:
                asked = (
                    f"step {number}"
                    if number >= 0
                    else f"code {self._codes[number]}, which is asked beside the scenario"
                )
                raise Silence(f"{self.name} does not answer {asked}")
            self._read(1)
        answer = link.answers.pop(opaque)
        if answer.code == 0:
            self.memory.keep(number, self._codes.get(number, 0), answer.ext_fields or {})
        return answer

    def ask(self, code: int, fields: Mapping[str, str] | None = None, body: bytes = b"", link: int = 0) -> Command:
        """Ask besides the scenario."""
        name, secret = ("", "") if (user := self._superuser) is None else (user.access_key, user.secret_key)
        self.send(Step(code, fields or {}, body, number=-1, link=link, user=name, secret=secret))
        answer = self.receive(-1)
        assert isinstance(answer, Command), f"{self.name} closed instead of answering {code}"
        return answer

    def settle(self) -> None:
        """Wait until all that is stored can be read: Java fills its queues a moment after it has answered, in order.

        Raises:
            Silence: that takes too long.
        """
        stored = self.ask(RequestCode.SEND_MESSAGE_V2, LAST, b"the last of all")
        assert stored.code == 0, f"{self.name} does not take a message: {stored.remark}"
        place = int((stored.ext_fields or {})["queueOffset"])
        deadline = time.monotonic() + TIMEOUT_S
        while True:
            answer = self.ask(RequestCode.GET_MAX_OFFSET, LAST_QUEUE)
            if answer.code == 0 and int((answer.ext_fields or {})["offset"]) > place:
                return
            if time.monotonic() > deadline:
                raise Silence(f"{self.name} does not let what it has stored be read, and says {answer.remark!r:.80}")

    def _read(self, timeout_s: float) -> None:
        links = {link.socket.fileno(): link for link in self._links if not link.is_closed}
        poll = select.poll()  # select() knows the first 1,024 descriptors only, and our broker runs in this process
        for descriptor in links:
            poll.register(descriptor, select.POLLIN)
        for ready, _ in poll.poll(timeout_s * 1_000):
            self._take(links[ready])

    def _take(self, link: Link) -> None:
        try:
            pushed = link.take()
        except FrameError as error:
            self.stray.append(f"cannot be read: {error}")
            link.is_closed = True
            return
        for request in pushed:
            self.pushed.append(request)
            if not request.is_oneway:
                link.socket.sendall(encode_command(self._answer(request)))
