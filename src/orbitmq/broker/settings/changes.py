"""Changes of settings while the broker runs: what takes effect immediately or from the next start on.

Keys of Java's broker that have no effect here are kept, too, and shown. Texts have characters alone that mean nothing to a
shell or to the file that keeps them (CVE-2023-33246).

Source: Java AdminBrokerProcessor.updateBrokerConfig, Configuration.update.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import NamedTuple

from orbitmq.broker.config import IMPLIED_PATHS, BrokerConfig
from orbitmq.broker.settings.file import WITHOUT_EFFECT, SettingsFile
from orbitmq.codes import ResponseCode
from orbitmq.errors import ConfigError, Rejected
from orbitmq.model.topic import NAME_LENGTH_MAX, DataVersion
from orbitmq.settings import fields_by_key, parse_value

MARK = "keysWithoutEffect"
"""Ours: the key that names the others that have no effect here."""
CHANGEABLE_MARK = "keysThatMayChange"
"""Ours: the key that names those that may be changed while the broker runs."""

NEXT_START_MARK = "keysOfTheNextStart"
"""Ours: the key that names those whose new values count from the next start on, with these values."""


def shown_settings(settings: RunTimeSettings) -> dict[str, str]:
    """Return all keys with their values, sorted.

    Those without an effect have what was set, or Java's defaults: a tool that computes with one of them finds a number there.
    """
    config = settings.current()
    root = config.store_path_root_dir
    ours = config.to_properties()
    implied = {"storePathCommitLog": str(root / IMPLIED_PATHS["storePathCommitLog"])}
    without_effect = {key: settings.idle.get(key, value) for key, value in WITHOUT_EFFECT.items() if key not in ours}
    marks = {
        MARK: ",".join(sorted(without_effect)),
        CHANGEABLE_MARK: ",".join(sorted(CHANGEABLE)),
        NEXT_START_MARK: ",".join(f"{key}:{value}" for key, value in sorted(settings.next_start.items())),
    }
    return dict(sorted((without_effect | implied | ours | marks).items()))


def format_settings(settings: RunTimeSettings) -> bytes:
    """Return the settings as Java properties text."""
    lines = ["# keys that keysWithoutEffect names have no effect in this broker"]
    lines += [f"{key}={_escaped(value)}" for key, value in shown_settings(settings).items()]
    return "".join(f"{line}\n" for line in lines).encode()


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\")  # nothing else has a meaning inside of a value


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
        "namesrvAddr",
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
"""Every key that a request may change, and that takes effect immediately."""
BLACK_LIST = frozenset(("brokerConfigPath", "configBlackList", "rocketmqHome"))
"""What Java refuses with the same words."""
_FIELDS = fields_by_key(BrokerConfig)
_IN_THE_FILE_ALONE = frozenset(
    (
        "acceptLogEnd",
        "aclEnable",
        "authenticationEnabled",
        "authorizationEnabled",
        "brokerId",
        "mappedFileSizeCommitLog",
        "mappedFileSizeConsumeQueue",
        "mappedFileSizeTimerLog",
        "maxHashSlotNum",
        "maxIndexNum",
        "migrateAuthFromV1Enabled",
        "timerPrecisionMs",
        "timerRollWindowSlot",
        "tlsServerNeedClientAuth",
    )
)
"""Numbers and switches that no request changes: access, and how the files of the store are to be read."""
_TEXTS = {
    "defaultMessageRequestMode": re.compile(r"[A-Z]*"),
    "flushDiskType": re.compile(r"[A-Z_]*"),
    "messageDelayLevel": re.compile(r"[0-9smhd ]*"),
    "msgTraceTopicName": re.compile(rf"[%|a-zA-Z0-9_-]{{1,{NAME_LENGTH_MAX}}}"),
    "namesrvAddr": re.compile(r"[A-Za-z0-9_.:;\[\]-]+"),
    "regionId": re.compile(r"[A-Za-z0-9_.:-]{0,255}"),
}
"""Texts that a request may change: none is about the broker's identity, access, or where files are."""
NEXT_START = (
    frozenset(key for key, spec in _FIELDS.items() if spec.type in ("int", "bool")) - CHANGEABLE - _IN_THE_FILE_ALONE
    | _TEXTS.keys() - CHANGEABLE
)
"""Keys whose new values are kept, and count from the next start on."""
_WORD = re.compile(r"(?!.*\.\.)[A-Za-z0-9_.:,;@/=\"{}\[\]-]{0,255}")
"""Text of a key without effect: nothing that means something to a shell, and no way up from a directory."""
_DECIMAL = re.compile(r"[+-]?[0-9]{1,20}(\.[0-9]{1,20})?")
_WHOLE = re.compile(r"0|-?[1-9][0-9]*")
"""As Java writes a number; 05 is an hour, and hours are text."""
_LONGS = range(-(2**63), 2**63)

Use = Callable[[BrokerConfig, Callable[[], None]], None]
"""Lets settings take effect from now on; calls back when all parts that use them know."""


class SettingsChange(NamedTuple):
    """A change of settings, by what becomes of its keys.

    Args:
        now: takes effect immediately.
        next_start: counts from the next start on.
        idle: has no effect in this broker.
    """

    now: dict[str, str]
    next_start: dict[str, str]
    idle: dict[str, str]

    @property
    def remark(self) -> str | None:
        """What to say of keys that do not count now; None: all do."""
        said = []
        if self.next_start:
            said.append(f"kept for the next start: {', '.join(self.next_start)}")
        if self.idle:
            said.append(f"kept, without effect in this broker: {', '.join(self.idle)}")
        return "; ".join(said) or None


def sorted_change(properties: Mapping[str, str]) -> SettingsChange:
    """Return a change as its keys say.

    Raises:
        ConfigError: the value of a key without effect is not what Java takes for it.
        Rejected: 16 or 1, a key cannot be changed.
    """
    if BLACK_LIST & properties.keys():
        raise Rejected(ResponseCode.NO_PERMISSION, "Can not update config in black list.")
    change = SettingsChange({}, {}, {})
    for key, text in sorted(properties.items()):
        if key in CHANGEABLE:
            change.now[key] = _checked_text(key, text.strip())
        elif key in NEXT_START:
            change.next_start[key] = _checked_text(key, text.strip())
        elif key in WITHOUT_EFFECT and key not in _FIELDS:
            change.idle[key] = _idle_value(key, text.strip())
        else:
            raise Rejected(ResponseCode.SYSTEM_ERROR, f"{key:.100} {_why_not(key)}: nothing was changed")
    return change


def _why_not(key: str) -> str:
    if key in _FIELDS or key in IMPLIED_PATHS:
        return "cannot be changed by a request; set it in the settings file and start the broker again"
    return "is not a setting of a broker"


def _checked_text(key: str, text: str) -> str:
    """Return the value of a key. Raises ConfigError for a text with characters that it has no use for."""
    allowed = _TEXTS.get(key)
    if allowed is not None and allowed.fullmatch(text) is None:
        raise ConfigError(key, text, f"text as {allowed.pattern}")
    return text


def _idle_value(key: str, text: str) -> str:
    """Return the value of a key without effect. Raises ConfigError for another type than that of Java's default."""
    default = WITHOUT_EFFECT[key]
    if default in ("true", "false"):
        return str(parse_value(key, text, "bool")).lower()
    if _WHOLE.fullmatch(default) is not None:
        if (number := parse_value(key, text, "int")) not in _LONGS:
            raise ConfigError(key, text, "a number of 64 bits")
        return str(number)
    if _DECIMAL.fullmatch(default) is not None:
        if _DECIMAL.fullmatch(text) is None:
            raise ConfigError(key, text, "a decimal number")
    elif _WORD.fullmatch(text) is None:
        raise ConfigError(
            key, text, 'up to 255 letters, digits and _ . : , ; @ / = " { } [ ] - without two dots in a row'
        )
    return text


class RunTimeSettings:
    """The settings in use, and the way to change them: on the disk first, in effect afterwards.

    Args:
        current: returns the settings in use.
        use: is given those that count from now on.
        idle: values of keys without effect, as they were kept.
    """

    def __init__(self, current: Callable[[], BrokerConfig], use: Use, idle: Mapping[str, str] | None = None) -> None:
        self.current = current
        self.version = DataVersion()
        self.idle = dict(idle or {})
        """Keys without effect, with what was set."""
        self.next_start: dict[str, str] = {}
        """Keys that count from the next start on, with their values then."""
        self._use = use

    def change(self, properties: Mapping[str, str], now_ms: int, then: Callable[[str | None], None]) -> SettingsChange:
        """Change settings, all or none.

        Args:
            then: is called when they count everywhere, with what is to be said of those that do not.

        Raises:
            ConfigError: a value is not allowed.
            Rejected: 16 or 1, a key cannot be changed; 14, the disk does not take the settings file.
        """
        change = sorted_change(properties)
        config = self.current().changed_by(change.now)
        waiting = {**self.next_start, **change.next_start}
        texts = config.changed_by(waiting).to_properties() | change.idle
        file = SettingsFile.of(config)
        try:
            file.keep({key: texts[key] for key in properties})
        except OSError as error:
            remark = f"the settings file cannot be written, nothing was changed: {error.strerror}"
            raise Rejected(ResponseCode.SERVICE_NOT_AVAILABLE, remark) from error
        self.idle |= change.idle
        self.next_start = {key: texts[key] for key in waiting}
        self.version = self.version.next(now_ms)
        self._use(config, lambda: then(change.remark))
        return change


def with_kept_changes(config: BrokerConfig) -> BrokerConfig:
    """Return the settings with the changes that an earlier run has kept, where the broker has no settings file of its own.

    Raises:
        ConfigError: the file of changes holds something that cannot be used.
    """
    file = SettingsFile.of(config)
    if not file.holds_changes_alone:
        return config  # they were read from it
    try:
        kept = sorted_change(file.read())
        return config.changed_by(kept.now | kept.next_start) if kept.now or kept.next_start else config
    except Rejected as refusal:
        raise ConfigError(
            "brokerConfigPath", str(file.path), f"settings that can be changed ({refusal.remark})"
        ) from None


def kept_without_effect(config: BrokerConfig) -> dict[str, str]:
    """Return the keys without effect that the settings file sets, with their values."""
    file = SettingsFile.of(config)
    found = file.read() if file.path.is_file() else {}
    return {key: text for key, text in found.items() if key in WITHOUT_EFFECT and key not in _FIELDS}
