"""Changes of settings while the broker runs: a white list of numbers, switches, and hours.

None of them is a path or free text, so none can smuggle anything into the file that keeps them (CVE-2023-33246).

Source: Java AdminBrokerProcessor.updateBrokerConfig, Configuration.update.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping

from orbitmq.broker.config import IMPLIED_PATHS, BrokerConfig
from orbitmq.broker.settings.file import SettingsFile
from orbitmq.broker.settings.java_keys import WITHOUT_EFFECT
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, Rejected
from orbitmq.model.topic import DataVersion
from orbitmq.settings import fields_by_key, parse_value

CHANGEABLE = frozenset(
    (
        "allowRecallWhenBrokerNotWriteable",
        "autoCreateSubscriptionGroup",
        "autoCreateTopicEnable",
        "brokerFastFailureEnable",
        "brokerPermission",
        "cleanFileForciblyEnable",
        "cleanResourceInterval",
        "defaultQueryMaxNum",
        "deleteCommitLogFilesInterval",
        "deleteConsumeQueueFilesInterval",
        "deleteFileBatchMax",
        "deleteWhen",
        "diskMaxUsedSpaceRatio",
        "diskSpaceCleanForciblyRatio",
        "diskSpaceWarningLevelRatio",
        "enableMixedMessageType",
        "fileReservedTime",
        "groupsMax",
        "longPollingEnable",
        "maxMessageSize",
        "maxMsgsNumBatch",
        "recallMessageEnable",
        "rejectTransactionMessage",
        "shortPollingTimeMills",
        "storeReplyMessageEnable",
        "topicsMax",
        "traceOn",
        "transactionCheckMax",
        "transactionTimeOut",
        "waitTimeMillsInSendQueue",
    )
)
"""Every key that a request may change."""
BLACK_LIST = frozenset(("brokerConfigPath", "configBlackList", "rocketmqHome"))
"""What Java refuses with the same words."""
_FIELDS = fields_by_key(BrokerConfig)

Use = Callable[[BrokerConfig, Callable[[], None]], None]
"""Lets settings count from now on; calls back when whoever has to know of them does."""


def changed_config(config: BrokerConfig, properties: Mapping[str, str]) -> BrokerConfig:
    """Return the settings with RocketMQ's keys and text values put over them.

    Raises:
        ConfigError: a value is not allowed.
        Rejected: 16 or 1, a key cannot be changed.
    """
    if BLACK_LIST & properties.keys():
        raise Rejected(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    for key in sorted(properties):
        if (reason := _why_not(key)) is not None:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"{key:.100} {reason}: nothing was changed")
    values = {_FIELDS[key].name: parse_value(key, text, _FIELDS[key].type) for key, text in properties.items()}
    return dataclasses.replace(config, **values)


def _why_not(key: str) -> str | None:
    if key in CHANGEABLE:
        return None
    if key in _FIELDS or key in IMPLIED_PATHS:
        return "cannot be changed while the broker runs; set it in the settings file and start the broker again"
    return "has no effect in this broker" if key in WITHOUT_EFFECT else "is no setting of a broker"


class RunTimeSettings:
    """The settings in use, and the way to change them: on the disk first, in effect afterwards.

    Args:
        current: returns the settings in use.
        use: is given those that count from now on.
    """

    def __init__(self, current: Callable[[], BrokerConfig], use: Use) -> None:
        self.current = current
        self.version = DataVersion()
        self._use = use

    def change(self, properties: Mapping[str, str], now_ms: int, then: Callable[[], None]) -> None:
        """Change settings, all or none.

        Args:
            then: is called when they count everywhere.

        Raises:
            ConfigError: a value is not allowed.
            Rejected: 16 or 1, a key cannot be changed; 14, the disk does not take the settings file.
        """
        old = self.current()
        config = changed_config(old, properties)
        texts = config.to_properties()
        file = SettingsFile.of(config)
        try:
            file.keep({key: texts[key] for key in properties})
        except OSError as error:
            remark = f"the settings file cannot be written, nothing was changed: {error.strerror}"
            raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        self.version = self.version.next(now_ms)
        self._use(config, then)


def with_kept_changes(config: BrokerConfig) -> BrokerConfig:
    """Return the settings with the changes that an earlier run has kept, where the broker has no settings file of its own.

    Raises:
        ConfigError: the file of changes holds something that cannot be used.
    """
    file = SettingsFile.of(config)
    if not file.holds_changes_alone:
        return config  # they were read from it
    kept = file.read()
    try:
        return changed_config(config, kept) if kept else config
    except Rejected as refusal:
        raise ConfigError(
            "brokerConfigPath", str(file.path), f"settings that can be changed ({refusal.remark})"
        ) from None
