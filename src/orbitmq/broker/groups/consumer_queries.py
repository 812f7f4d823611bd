"""Questions that a broker asks consumers for an administrator: to one of them, or to all of a group; within a limit.

State: how many questions wait for their answers. In: requests, answers. Out: for each question, once, what came of it.

Source: Java Broker2Client.callClient, AdminBrokerProcessor.callConsumer.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.broker.groups.members import GroupMember, GroupMembers
from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import ClientError, Rejected, RequestTimeout
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply
from orbitmq.wire.command import Command

ANSWER_TIMEOUT_MS = 10_000
"""How long one client may take (Java: Broker2Client.callClient)."""
OFFSETS_TIMEOUT_MS = 5_000
"""How long a group's clients may take to say where they are (Java: Broker2Client.getConsumeStatus)."""
COUNT_MAX = 10_000
"""Ours: questions that may wait for their answers. Each is a request of an administrator, and a group has no more members."""
CODE_MAX = 2**15 - 1
"""The largest code that both forms of a header can carry."""

Answers = Mapping[str, Command]
"""What clients have answered, by client id; without those that gave no answer."""


class ConsumerQueries:
    """Asks the consumers of groups, which are found by the client ids of their heartbeats.

    Args:
        members: tells the clients' connections.
    """

    def __init__(self, members: GroupMembers[Peer]) -> None:
        self.count = 0
        """Questions that wait for their clients' answers."""
        self._members = members

    def ask(self, group: str, client_id: str | None, command: Command, done: Callable[[Reply], None]) -> None:
        """Pass a question on to one client, and its answer back as it is.

        Args:
            done: is called once, in this very call where the client has left.

        Raises:
            Rejected: 1, the client is not there or too old; 2, too many questions wait.
        """
        member = self._find(group, client_id)
        self._enter(1)

        def answered(answer: Command | ClientError) -> None:
            self.count -= 1
            done(_reply_of(answer, group, member.client_id))

        member.connection.send_request(command, answered, timeout_ms=ANSWER_TIMEOUT_MS)

    def ask_all(self, group: str, client_id: str | None, command: Command, done: Callable[[Answers], None]) -> None:
        """Ask all clients of a group, or one of them.

        Args:
            client_id: the one; None or blank for all.
            done: is called once, when each has answered, or will not any more.

        Raises:
            Rejected: 1, no consumer of the group is online, or one that is to be asked is too old; 2, too many questions wait.
        """
        found = self._members.find(group)
        if found is None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"No Any Consumer online in the consumer group: [{group:.260}]")
        wanted = (client_id or "").strip()
        asked = [member for member in found.members.values() if wanted in ("", member.client_id)]
        for member in asked:
            _check_version(member, Version.V3_0_7_SNAPSHOT, "the client does not support this feature")
        self._enter(len(asked))
        answers: dict[str, Command] = {}
        left = len(asked)
        if not left:
            done(answers)

        def answered(client: str, answer: Command | ClientError) -> None:
            nonlocal left
            self.count -= 1
            left -= 1
            if isinstance(answer, Command) and answer.code == ResponseCode.SUCCESS:
                answers[client] = answer
            if not left:
                done(answers)

        for member in asked:
            self._ask_one(member, command, answered)

    @staticmethod
    def _ask_one(
        member: GroupMember[Peer], command: Command, answered: Callable[[str, Command | ClientError], None]
    ) -> None:
        member.connection.send_request(
            command, lambda answer: answered(member.client_id, answer), timeout_ms=OFFSETS_TIMEOUT_MS
        )

    def _find(self, group: str, client_id: str | None) -> GroupMember[Peer]:
        found = self._members.find(group)
        member = None if found is None or client_id is None else found.members.get(client_id)
        if member is None:
            shown = "null" if client_id is None else client_id  # in Java's words
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"The Consumer <{group:.260}> <{shown:.260}> not online")
        _check_version(member, Version.V3_1_8_SNAPSHOT, f"The Consumer <{member.client_id:.260}> is too old to finish")
        return member

    def _enter(self, count: int) -> None:
        if self.count and self.count + count > COUNT_MAX:
            raise Rejected(ResponseCode.SYSTEM_BUSY, f"{self.count} questions wait for clients' answers")
        self.count += count


def _check_version(member: GroupMember[Peer], oldest: int, remark: str) -> None:
    if member.version < oldest:
        raise Rejected(ResponseCode.SYSTEM_ERROR, f"{remark}. version={member.version}")


def _reply_of(answer: Command | ClientError, group: str, client_id: str) -> Reply:
    if isinstance(answer, RequestTimeout):
        return Reply(ResponseCode.CONSUME_MSG_TIMEOUT, f"consumer <{group}> <{client_id}> Timeout: {answer}")
    if isinstance(answer, ClientError):
        return Reply(ResponseCode.SYSTEM_ERROR, f"invoke consumer <{group}> <{client_id}> Exception: {answer}")
    if not (0 <= answer.code <= CODE_MAX and isinstance(answer.remark, str | None)):
        # An administrator's answer in the binary form has no place for it.
        return Reply(ResponseCode.SYSTEM_ERROR, f"consumer <{group}> <{client_id}> gave an answer that is none")
    return Reply(answer.code, answer.remark, body=answer.body, ext_fields=answer.ext_fields)
