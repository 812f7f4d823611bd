"""Requests to etcd's JSON gateway over HTTP: one endpoint after the other, with limits of size and time.

An endpoint that fails is left for the next one. A request that may have changed something is not repeated there, unless it was
certainly not sent.
"""

from __future__ import annotations

import asyncio
import logging
import ssl
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import orjson

from orbitmq.controller.config import ControllerConfig
from orbitmq.controller.etcd.messages import read_cluster
from orbitmq.errors import ConfigError, EtcdAnswerTooLarge, EtcdError, EtcdRefused, EtcdUnreachable
from orbitmq.net.security.tls import TlsFiles, client_context

if TYPE_CHECKING:
    import httpx

log = logging.getLogger(__name__)

CONNECT_TIMEOUT_S = 0.5
REQUEST_TIMEOUT_S = 1.0
"""Of one try at one endpoint; what changes a group has `CHANGE_TIMEOUT_S`."""
CHANGE_TIMEOUT_S = 3.0
ANSWER_SIZE_MAX = 16 * 1024 * 1024
WATCH_SILENCE_MAX_S = 60
"""A watch that tells nothing for so long is begun again: its endpoint may be cut off."""
PASSWORD_SIZE_MAX = 1024
REFUSALS = frozenset({3, 5, 7, 8, 9, 11, 16})
"""Codes of gRPC by which etcd says that a request has changed nothing; after any other one it may have."""
_UNAUTHENTICATED = 16
_OLD_TOKEN = ("invalid auth token", "revision of auth store is old", "user name is empty")


class EtcdClient:
    """A client of one etcd cluster.

    Args:
        endpoints: as http://host:port.
        user, password: for etcd's access control; none without a user.
        tls: how servers at https:// are believed, and what this client shows them.
        transport: instead of sockets.

    Raises:
        ConfigError: httpx is not installed.
    """

    def __init__(
        self,
        endpoints: Sequence[str],
        *,
        user: str = "",
        password: str = "",
        tls: ssl.SSLContext | None = None,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        try:
            import httpx  # only controllers over etcd need it
        except ImportError:
            raise ConfigError("controllerType", "etcd", "etcd with httpx: pip install 'orbitmq[etcd]'") from None
        self._httpx = httpx
        self._endpoints = tuple(endpoints)
        self._place = 0
        self._user, self._password = user, password
        self._token: str | None = None
        self._cluster: int | None = None
        self._http = httpx.AsyncClient(
            # Without `verify` httpx loads a list of authorities, which plain HTTP has no use for.
            verify=tls if tls is not None else False,
            transport=transport,
            trust_env=False,
            follow_redirects=False,
            headers={"accept-encoding": "identity", "content-type": "application/json"},
            timeout=httpx.Timeout(REQUEST_TIMEOUT_S, connect=CONNECT_TIMEOUT_S),
        )

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def ask(self, path: str, request: dict[str, Any], *, timeout_s: float = REQUEST_TIMEOUT_S) -> dict[str, Any]:
        """Return the answer to a request that may be sent twice.

        Raises:
            EtcdError: no endpoint gives an answer.
        """
        last: EtcdError | None = None
        for _ in self._endpoints:
            try:
                return await self._ask(path, request, timeout_s)
            except (EtcdAnswerTooLarge, EtcdRefused) as error:
                if isinstance(error, EtcdAnswerTooLarge) or error.code in REFUSALS:
                    raise  # each endpoint would say so
                last = error
            except EtcdError as error:
                last = error
            self._leave_endpoint()
        assert last is not None
        raise last

    async def change(self, path: str, request: dict[str, Any]) -> dict[str, Any]:
        """Return the answer to a request that is sent once.

        Raises:
            EtcdUnreachable: `was_sent` says whether it may have been carried out.
            EtcdRefused: it was not carried out when the code is one of `REFUSALS`.
            EtcdError: the answer cannot be read.
        """
        last: EtcdError | None = None
        for _ in self._endpoints:
            try:
                return await self._ask(path, request, CHANGE_TIMEOUT_S)
            except EtcdRefused as error:
                if error.code not in REFUSALS:
                    self._leave_endpoint()
                raise
            except EtcdUnreachable as error:
                self._leave_endpoint()
                last = error
                if error.was_sent:
                    break
        assert last is not None
        raise last

    async def watch(self, request: dict[str, Any]) -> AsyncGenerator[dict[str, Any], None]:
        """Yield the messages of a watch, until it breaks.

        Raises:
            EtcdError: it has, or cannot begin.
        """
        endpoint = self._endpoints[self._place]
        try:
            timeout = self._httpx.Timeout(WATCH_SILENCE_MAX_S, connect=CONNECT_TIMEOUT_S)
            headers = await self._headers(endpoint)
            url, body = f"{endpoint}/v3/watch", orjson.dumps(request)
            async with self._http.stream("POST", url, content=body, headers=headers, timeout=timeout) as answer:
                if answer.status_code != 200:
                    raise self._refusal(endpoint, answer.status_code, await _read_all(answer))
                waiting = bytearray()
                async for part in answer.aiter_raw():
                    waiting += part
                    if len(waiting) > ANSWER_SIZE_MAX:
                        raise EtcdAnswerTooLarge(f"a message of a watch at {endpoint} has over {ANSWER_SIZE_MAX} bytes")
                    *lines, rest = waiting.split(b"\n")
                    waiting = bytearray(rest)
                    for line in filter(None, lines):
                        yield self._result(endpoint, _parse(line))
        except self._httpx.HTTPError as error:
            raise EtcdUnreachable(f"the watch at {endpoint} broke: {_words(error)}", was_sent=True) from None

    async def _ask(self, path: str, request: dict[str, Any], timeout_s: float) -> dict[str, Any]:
        endpoint = self._endpoints[self._place]
        headers = await self._headers(endpoint)
        try:
            return await self._send(endpoint, path, request, headers, timeout_s)
        except EtcdRefused as error:
            if not self._user or not (error.code == _UNAUTHENTICATED or any(text in str(error) for text in _OLD_TOKEN)):
                raise
        self._token = None  # it has expired, and the request was not carried out
        return await self._send(endpoint, path, request, await self._headers(endpoint), timeout_s)

    async def _headers(self, endpoint: str) -> dict[str, str]:
        if not self._user:
            return {}
        if self._token is None:
            named = {"name": self._user, "password": self._password}
            try:
                answer = await self._send(endpoint, "auth/authenticate", named, {}, REQUEST_TIMEOUT_S)
            except EtcdUnreachable as error:
                raise EtcdUnreachable(str(error), was_sent=False) from None
            token = answer.get("token")
            if not isinstance(token, str) or not token.isprintable() or not token.isascii():
                raise EtcdUnreachable(f"{endpoint} gives no token to the user {self._user}", was_sent=False)
            self._token = token
        return {"authorization": self._token}

    async def _send(
        self, endpoint: str, path: str, request: dict[str, Any], headers: dict[str, str], timeout_s: float
    ) -> dict[str, Any]:
        httpx = self._httpx
        try:
            async with asyncio.timeout(timeout_s):
                async with self._http.stream(
                    "POST",
                    f"{endpoint}/v3/{path}",
                    content=orjson.dumps(request),
                    headers=headers,
                    timeout=httpx.Timeout(timeout_s, connect=CONNECT_TIMEOUT_S),
                ) as answer:
                    status, body = answer.status_code, await _read_all(answer)
        except (httpx.ConnectError, httpx.ConnectTimeout, httpx.PoolTimeout) as error:
            raise EtcdUnreachable(f"etcd at {endpoint} cannot be reached: {_words(error)}", was_sent=False) from None
        except httpx.HTTPError as error:
            raise EtcdUnreachable(f"etcd at {endpoint} does not answer: {_words(error)}", was_sent=True) from None
        except TimeoutError:
            raise EtcdUnreachable(f"etcd at {endpoint} does not answer in {timeout_s} s", was_sent=True) from None
        if status != 200:
            raise self._refusal(endpoint, status, body)
        return self._result(endpoint, _parse(body))

    def _result(self, endpoint: str, document: dict[str, Any]) -> dict[str, Any]:
        """Return an answer, out of its stream if it is one's message, when it comes from the cluster that answered first."""
        if "error" in document:
            raise self._refusal(endpoint, 200, orjson.dumps(document["error"]))
        result = document.get("result", document)
        if not isinstance(result, dict):
            raise EtcdError(f"etcd at {endpoint} answers with something else than an object")
        cluster = read_cluster(result)
        if cluster and self._cluster is None:
            self._cluster = cluster
        if cluster and cluster != self._cluster:
            raise EtcdError(
                f"etcd at {endpoint} is of the cluster {cluster:x}, and {self._cluster:x} was known: "
                "all endpoints must be of one cluster; restart the controllers if it was set up again"
            )
        return result

    def _refusal(self, endpoint: str, status: int, body: bytes) -> EtcdRefused:
        code, text = 0, f"HTTP status {status}"
        with suppress(EtcdError):
            document = _parse(body)
            code = document.get("code", document.get("grpc_code", 0))
            text = str(document.get("message", text))
        return EtcdRefused(f"etcd at {endpoint} refuses: {text:.300}", code if isinstance(code, int) else 0)

    def _leave_endpoint(self) -> None:
        self._place = (self._place + 1) % len(self._endpoints)


def make_client(config: ControllerConfig) -> EtcdClient:
    """Return a client by a controller's settings.

    Raises:
        ConfigError: httpx is not installed, or a file cannot be used.
    """
    password = ""
    if config.etcd_user:
        path = Path(config.etcd_password_file).expanduser()
        try:
            with path.open("rb") as file:
                password = file.read(PASSWORD_SIZE_MAX).decode().strip()
        except (OSError, ValueError) as error:
            raise ConfigError("etcdPasswordFile", str(path), f"a readable file with the password ({error})") from None
    return EtcdClient(config.endpoints, user=config.etcd_user, password=password, tls=_tls(config))


def _tls(config: ControllerConfig) -> ssl.SSLContext | None:
    if not any(endpoint.startswith("https://") for endpoint in config.endpoints):
        return None
    paths = (config.etcd_cert_path, config.etcd_key_path if config.etcd_cert_path else "", config.etcd_trust_cert_path)
    certificate, key, trust = (Path(path) if path else None for path in paths)
    try:
        context = client_context(TlsFiles(certificate=certificate, key=key, trust=trust))
        context.check_hostname = True
    except (ConfigError, ValueError) as error:
        files = f"{config.etcd_trust_cert_path} {config.etcd_cert_path} {config.etcd_key_path}".strip()
        raise ConfigError("etcdTrustCertPath", files, f"files with certificates and a key ({error})") from None
    return context


async def _read_all(answer: httpx.Response) -> bytes:
    body = bytearray()
    async for part in answer.aiter_raw():
        body += part
        if len(body) > ANSWER_SIZE_MAX:
            raise EtcdAnswerTooLarge(f"an answer of etcd has over {ANSWER_SIZE_MAX} bytes")
    return bytes(body)


def _parse(body: bytes | bytearray) -> dict[str, Any]:
    try:
        document = orjson.loads(body)
    except ValueError:
        document = None
    if not isinstance(document, dict):
        raise EtcdError("an answer of etcd is not a JSON object")
    return document


def _words(error: Exception) -> str:
    return f"{type(error).__name__} {error}".strip()
