"""Security of a broker: its port, its connections to others, and which role each request needs.

A client that only consumes is a reader: that takes pulling, heartbeats, offsets, locks, and sending a message back to be retried.
One that sends is a writer. What is not named here, now or by mistake later, is administration.
"""

from __future__ import annotations

from orbitmq.broker.access.settings import parse_own_credentials
from orbitmq.broker.config import BrokerConfig
from orbitmq.codes import RequestCode
from orbitmq.net.security.accounts import AccountRole
from orbitmq.net.security.client_security import ClientSecurity, load_security
from orbitmq.net.security.server_security import ServerSecurity

_READING = (
    RequestCode.PULL_MESSAGE,
    RequestCode.LITE_PULL_MESSAGE,
    RequestCode.CONSUMER_SEND_MSG_BACK,
    RequestCode.QUERY_CONSUMER_OFFSET,
    RequestCode.UPDATE_CONSUMER_OFFSET,
    RequestCode.SEARCH_OFFSET_BY_TIMESTAMP,
    RequestCode.GET_MAX_OFFSET,
    RequestCode.GET_MIN_OFFSET,
    RequestCode.GET_EARLIEST_MSG_STORETIME,
    RequestCode.VIEW_MESSAGE_BY_ID,
    RequestCode.QUERY_MESSAGE,
    RequestCode.QUERY_CONSUME_QUEUE,
    RequestCode.QUERY_CONSUME_TIME_SPAN,
    RequestCode.HEART_BEAT,
    RequestCode.UNREGISTER_CLIENT,
    RequestCode.CHECK_CLIENT_CONFIG,
    RequestCode.GET_CONSUMER_LIST_BY_GROUP,
    RequestCode.LOCK_BATCH_MQ,
    RequestCode.UNLOCK_BATCH_MQ,
    RequestCode.GET_ALL_TOPIC_CONFIG,
    RequestCode.GET_TOPIC_CONFIG,
    RequestCode.GET_TOPIC_STATS_INFO,
    RequestCode.GET_SYSTEM_TOPIC_LIST_FROM_BROKER,
    RequestCode.GET_ALL_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_SUBSCRIPTIONGROUP_CONFIG,
    RequestCode.GET_CONSUME_STATS,
    RequestCode.GET_ALL_CONSUMER_OFFSET,
    RequestCode.GET_ALL_DELAY_OFFSET,
    RequestCode.GET_TIMER_CHECK_POINT,
    RequestCode.GET_TIMER_METRICS,
    RequestCode.GET_CONSUMER_RUNNING_INFO,
    RequestCode.GET_CONSUMER_STATUS_FROM_CLIENT,
    RequestCode.INVOKE_BROKER_TO_GET_CONSUMER_STATUS,
    RequestCode.QUERY_CORRECTION_OFFSET,
    RequestCode.QUERY_TOPIC_CONSUME_BY_WHO,
    RequestCode.GET_CONSUMER_CONNECTION_LIST,
    RequestCode.GET_PRODUCER_CONNECTION_LIST,
    RequestCode.GET_BROKER_RUNTIME_INFO,
    RequestCode.GET_BROKER_CONFIG,
    RequestCode.VIEW_BROKER_STATS_DATA,
    RequestCode.GET_BROKER_CONSUME_STATS,
    RequestCode.GET_ALL_PRODUCER_INFO,
    RequestCode.QUERY_TOPICS_BY_CONSUMER,
    RequestCode.QUERY_SUBSCRIPTION_BY_CONSUMER,
    RequestCode.GET_BROKER_HA_STATUS,
    RequestCode.GET_BROKER_EPOCH_CACHE,
    RequestCode.GET_COLD_DATA_FLOW_CTR_INFO,
    RequestCode.POP_MESSAGE,
    RequestCode.ACK_MESSAGE,
    RequestCode.BATCH_ACK_MESSAGE,
    RequestCode.PEEK_MESSAGE,
    RequestCode.CHANGE_MESSAGE_INVISIBLETIME,
    RequestCode.NOTIFICATION,
    RequestCode.POLLING_INFO,
    RequestCode.QUERY_ASSIGNMENT,
    RequestCode.GET_ALL_MESSAGE_REQUEST_MODE,
    RequestCode.ORBITMQ_HEALTH,
)
_WRITING = (
    RequestCode.SEND_MESSAGE,
    RequestCode.SEND_MESSAGE_V2,
    RequestCode.SEND_BATCH_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE,
    RequestCode.SEND_REPLY_MESSAGE_V2,
    RequestCode.END_TRANSACTION,
    RequestCode.RECALL_MESSAGE,
)
_ROLES: dict[int, AccountRole] = {
    **dict.fromkeys(_READING, AccountRole.READER),
    **dict.fromkeys(_WRITING, AccountRole.WRITER),
}


def role_for(code: int) -> AccountRole:
    """Return the role that a request code needs."""
    return _ROLES.get(code, AccountRole.ADMIN)


def make_server_security(config: BrokerConfig) -> ServerSecurity:
    """Return what stands at a broker's port.

    Raises:
        ConfigError: the accounts or the certificates cannot be used.
    """
    return ServerSecurity(
        config, role_for, danger="read, send and delete messages", has_guard=config.authentication_enabled
    )


def make_client_security(config: BrokerConfig) -> ClientSecurity:
    """Return what a broker connects to NameServers and other brokers with.

    Raises:
        ConfigError: the file or the credentials cannot be used.
    """
    security = load_security(config.security_file)
    own = security.credentials or parse_own_credentials(config.inner_client_authentication_credentials)
    return security._replace(credentials=own)
