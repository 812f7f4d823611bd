"""Taking delayed messages back before their time.

Source: Java DefaultMQProducerImpl.recallMessage.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from orbitmq.client.session.session import ClientSession
from orbitmq.codes import ResponseCode
from orbitmq.errors import RemoteRefused, RouteNotFound
from orbitmq.wire.header import decode_header
from orbitmq.wire.headers.send import RecallMessage, RecallResponse
from orbitmq.wire.messages.recall_handle import RecallHandle, parse_recall_handle

OnRecall = Callable[[str, str, Mapping[str, str], bool], None]
"""Takes the message's topic and id, the answer's extFields, and whether it was taken back."""


class Recaller:
    """Asks the broker that has a message not to deliver it.

    Args:
        session: carries the requests.
        group: the producer group.
        timeout_ms: for one request.
        on_answer: is called with every answer; None: not needed.
    """

    def __init__(
        self, session: ClientSession, *, group: str, timeout_ms: int, on_answer: OnRecall | None = None
    ) -> None:
        self._session = session
        self._group = group
        self._timeout_ms = timeout_ms
        self._on_answer = on_answer

    async def recall(self, handle: str, timeout_ms: int | None = None) -> str:
        """Take a message back (see `Producer.recall`)."""
        found = parse_recall_handle(handle)
        await self._learn_address(found)
        header = RecallMessage(
            producer_group=self._group, topic=found.topic, recall_handle=handle, broker_name=found.broker_name
        )
        answer = await self._session.call(
            found.broker_name, header, timeout_ms=self._timeout_ms if timeout_ms is None else timeout_ms, only_this=True
        )
        if self._on_answer is not None:
            is_success = answer.code == ResponseCode.SUCCESS
            self._on_answer(found.topic, found.unique_key, answer.ext_fields or {}, is_success)
        if answer.code != ResponseCode.SUCCESS:
            address = self._session.routes.address(found.broker_name)
            raise RemoteRefused(answer.code, answer.remark, f"broker {found.broker_name} at {address}")
        return decode_header(RecallResponse, answer.ext_fields).message_id

    async def _learn_address(self, handle: RecallHandle) -> None:
        """Ask for the topic's route where the broker is in none that is known."""
        # Not in any case: a topic that the send has made may not be known to the NameServers yet.
        try:
            self._session.routes.address(handle.broker_name, only_this=True)
        except RouteNotFound:
            await self._session.routes.find(handle.topic)
