"""One query for a topic's route, to a client's NameServers in turn.

Source: Java MQClientAPIImpl.getTopicRouteInfoFromNameServer.
"""

from __future__ import annotations

from typing import NamedTuple

from orbitmq.client.routing.nameserver_client import NameServerClient, no_name_server
from orbitmq.codes import ResponseCode
from orbitmq.errors import HeaderError, NoNameServer, RemoteRefused, RouteNotFound
from orbitmq.model.route import TopicRoute
from orbitmq.wire.bodies.route import decode_route
from orbitmq.wire.command import Command
from orbitmq.wire.headers.nameserver import GetRouteInfo


class RouteAnswer(NamedTuple):
    """A topic's route, and the NameServer that told it."""

    route: TopicRoute
    teacher: str


async def query_route(name_servers: NameServerClient, topic: str) -> RouteAnswer:
    """Ask for a topic's route.

    A NameServer that does not know the topic is passed over: brokers register with each one on its own, so the next
    one may know it.

    Raises:
        RouteNotFound: those that answered do not know the topic.
        NoNameServer: none gave a usable answer.
    """
    causes: list[str] = []
    ignorant: list[str] = []

    def accept(address: str, answer: Command) -> RouteAnswer | None:
        teacher = name_servers.describe(address)
        if answer.code == ResponseCode.SUCCESS:
            return RouteAnswer(_decode(answer, address), teacher)
        if answer.code == ResponseCode.TOPIC_NOT_EXIST:
            ignorant.append(teacher)
        else:
            causes.append(str(RemoteRefused(answer.code, answer.remark, teacher)))
        return None

    header = GetRouteInfo(topic=topic, accept_standard_json_only=True)
    found = await name_servers.ask_until(header, accept, causes)
    if found is not None:
        return found
    if ignorant:
        raise RouteNotFound(
            f"topic {topic} has no route: {', '.join(ignorant)} do{'es' if len(ignorant) == 1 else ''} not know it"
            f"{'; ' + '; '.join(causes) if causes else ''}. Create it (orbitmq topic create {topic}), or check that "
            "its broker is up and registered there"
        )
    raise no_name_server(causes)


def _decode(answer: Command, address: str) -> TopicRoute:
    try:
        return decode_route(answer.body)
    except HeaderError as error:
        raise NoNameServer(f"{address} answered no route: {error}. Is it a NameServer?") from error
