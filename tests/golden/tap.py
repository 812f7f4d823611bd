"""A TCP relay that writes down every frame that passes: how golden files are captured from real peers."""

from __future__ import annotations

import socket
import threading
from dataclasses import dataclass


@dataclass(frozen=True)
class Passed:
    """One frame on its way through a tap."""

    tap: str
    connection: int
    to_server: bool
    frame: bytes


class Tap:
    """Listens on `listen`, relays to `target`, appends each whole frame to `passed`."""

    def __init__(self, name: str, listen: tuple[str, int], target: tuple[str, int], passed: list[Passed]) -> None:
        self.name = name
        self._target = target
        self._passed = passed
        self._count = 0
        self._sockets: list[socket.socket] = []
        self._listener = socket.create_server(listen, family=socket.AF_INET6 if ":" in listen[0] else socket.AF_INET)
        threading.Thread(target=self._accept, daemon=True).start()

    @property
    def port(self) -> int:
        port: int = self._listener.getsockname()[1]
        return port

    def close(self) -> None:
        for open_socket in (self._listener, *self._sockets):
            open_socket.close()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listener.accept()
            except OSError:
                return
            server = socket.create_connection(self._target)
            self._count += 1
            self._sockets += (client, server)
            for source, sink, to_server in ((client, server, True), (server, client, False)):
                pump = threading.Thread(target=self._pump, args=(source, sink, self._count, to_server), daemon=True)
                pump.start()

    def _pump(self, source: socket.socket, sink: socket.socket, connection: int, to_server: bool) -> None:
        held = b""
        try:
            while data := source.recv(65536):
                held = self._note(held + data, connection, to_server)
                sink.sendall(data)
            sink.shutdown(socket.SHUT_WR)
        except OSError:
            return  # One side left, so the other pump ends by itself.

    def _note(self, data: bytes, connection: int, to_server: bool) -> bytes:
        """Append the whole frames at the front of `data` and return the rest."""
        while len(data) >= 4 and len(data) >= (end := 4 + int.from_bytes(data[:4], "big")):
            self._passed.append(Passed(self.name, connection, to_server, data[:end]))
            data = data[end:]
        return data
