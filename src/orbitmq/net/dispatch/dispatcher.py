"""The way of a request from its command to the bytes of its answer: header, admission, handler, reply."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Literal

from orbitmq.clock import Clock
from orbitmq.codes import ResponseCode, Version
from orbitmq.errors import OrbitError, Rejected
from orbitmq.net.counters import Counters, is_worth_a_line
from orbitmq.net.dispatch.fast_path import FastPath
from orbitmq.net.dispatch.handlers import LATER, Call, Handlers, Later
from orbitmq.net.dispatch.peer import Peer
from orbitmq.net.dispatch.reply import Reply, encode_reply_parts
from orbitmq.wire.command import FLAG_ONEWAY, Command
from orbitmq.wire.frame import Frame
from orbitmq.wire.header import decode_header

log = logging.getLogger(__name__)

Admission = Callable[[Command, Peer], None]
"""Looks at a request before anything of it is parsed but its fields, and refuses it by raising Rejected."""


class Dispatcher:
    """Lets handlers answer requests; whatever goes wrong becomes an answer, too.

    Args:
        handlers: by request code; None where peers may ask nothing.
        service: what handlers work on, or the parts of it.
        name: stands in log lines.
        fast_path: learns from each answer that a handler gave.
        admission: is asked before every handler.
    """

    def __init__(
        self,
        handlers: Handlers[Any] | None,
        service: Any,
        *,
        name: str,
        counters: Counters,
        clock: Clock,
        fast_path: FastPath | None = None,
        admission: Admission | None = None,
    ) -> None:
        self._unbound = handlers
        self._service = service
        self.rebind()
        self._name = name
        self._counters = counters
        self._clock = clock
        self._fast_path = fast_path
        self._admission = admission
        self._is_draining = False

    def rebind(self) -> None:
        """Take what handlers work on from the service, at the start and whenever it has changed."""
        self._handlers = self._unbound.bind(self._service) if self._unbound is not None else {}

    def drain(self) -> None:
        """Send new requests away from now on: their clients know another server, or wait for this one's successor."""
        self._is_draining = True

    def serve(self, frame: Frame, command: Command, peer: Peer) -> tuple[bytes, ...]:
        """Return the bytes that answer a request now: none when it is one-way, or answered later."""
        reply = self.answer(command, peer)
        if reply is LATER or command.flag & FLAG_ONEWAY:
            return ()
        parts = encode_reply_parts(command, reply)
        if self._fast_path is not None:
            self._fast_path.learn(frame, command, reply)
        return parts

    def answer(self, command: Command, peer: Peer) -> Reply | Literal[Later.LATER]:
        """Let the handler of a request answer it."""
        entry = self._handlers.get(command.code)
        if entry is None:
            self._counters.unsupported_requests += 1
            if self._admission is not None and (refusal := self._refusal(command, peer)) is not None:
                return refusal
            return Reply(ResponseCode.REQUEST_CODE_NOT_SUPPORTED, f" request type {command.code} not supported")
        self._counters.requests[command.code] += 1
        # Clients up to 5.3.1 would take GO_AWAY for an error (Java NettyRemotingAbstract).
        if self._is_draining and command.version > Version.V5_3_1:
            return Reply(ResponseCode.GO_AWAY, "please go away")
        header_type, handler, part, body_size_max = entry
        try:
            if len(command.body) > body_size_max:
                self._counters.oversized_requests += 1
                raise Rejected(
                    ResponseCode.SYSTEM_ERROR, f"a body of {len(command.body)} bytes, at most {body_size_max} are read"
                )
            if self._admission is not None:
                self._admission(command, peer)
            call: Call[Any] = Call(decode_header(header_type, command.ext_fields), command, peer, self._clock())
            reply = handler(part, call)
        except Rejected as refusal:
            reply = Reply(refusal.code, refusal.remark)
        except OrbitError as error:  # bad input that a deeper room has found
            reply = Reply(ResponseCode.SYSTEM_ERROR, str(error))
        except Exception as error:
            reply = self._failure(command, peer, error)
        if reply is LATER:
            if not call.is_answered:
                call.is_pending = True
                peer.pending_count += 1
        elif reply.code:
            self._counters.refusals[command.code, reply.code] += 1
        return reply

    def _refusal(self, command: Command, peer: Peer) -> Reply | None:
        """Return why a peer is not even told that its request is not answered."""
        assert self._admission is not None
        try:
            self._admission(command, peer)
        except Rejected as refusal:
            return Reply(refusal.code, refusal.remark)
        return None

    def _failure(self, command: Command, peer: Peer, error: Exception) -> Reply:
        self._counters.failed_requests += 1
        if is_worth_a_line(self._counters.failed_requests):
            log.exception("%s: request %d from %s failed", self._name, command.code, peer.remote)
        return Reply(ResponseCode.SYSTEM_ERROR, f"{type(error).__name__}: {error}")
