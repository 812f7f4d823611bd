"""Secrets in settings and records, masked by one rule, which goes by the names of the values. Pure.

A name holds a secret where it contains password, secret, credential, token or the like, or ends with the key of something private
(`secretKey`, `privateKey`), unless its end says that the value is not a secret itself, as in `privateKeyPath`. Values inside of
JSON texts are masked as well. Booleans and empty values stay.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

MASK = "******"
_SECRET = re.compile(
    r"passw(or)?d|passphrase|passcode|secret|credential|token|authenticationuser"
    r"|(access|private|api|auth|account|sign|signing|signature|encryption|decryption|master|root|hmac|storage)keys?$"
)
_HARMLESS = re.compile(
    r"(file|path|dir|directory|class|provider|enable|enabled|disabled|type|algorithm|timeout|interval|size|count|max|min|length"
    r"|ms|millis|mills|seconds|minutes|hours)$"
)
_PASSWORD_OF_URL = re.compile(r"(?<=://)([^\s/:@]*):[^\s/@]+@")
_OUTCOMES = ("value", "before", "after", "now", "then")


def is_secret(name: str) -> bool:
    """Return True if the value of a name may be a secret: of a setting, an argument or a field of JSON, in any spelling."""
    letters = re.sub(r"[^a-z]", "", name.lower())
    return _SECRET.search(letters) is not None and _HARMLESS.search(letters) is None


def masked_value(name: str, value: str) -> str:
    """Return the value of a setting with its secrets masked; of JSON only those fields that are."""
    if not value.strip() or value.strip().lower() in ("true", "false"):
        return value
    if is_secret(name):
        return MASK
    return _masked_text(value)


def masked_settings(settings: Mapping[str, str]) -> dict[str, str]:
    """Return settings with their secrets masked."""
    return {name: masked_value(name, value) for name, value in settings.items()}


def masked(value: Any) -> Any:
    """Return a value of a record with its secrets masked: in mappings by their names, in sequences, and in JSON texts.

    A mapping with a `key` is one setting: its `value`, `before` and `after` are masked by the key's name.
    """
    if isinstance(value, Mapping):
        key = str(value.get("key", ""))
        return {
            name: _masked_field(key if is_secret(key) and name in _OUTCOMES else str(name), part)
            for name, part in value.items()
        }
    if isinstance(value, (list, tuple)):
        return [masked(part) for part in value]
    return _masked_text(value) if isinstance(value, str) else value


def _masked_field(name: str, value: Any) -> Any:
    if not is_secret(name) or value is None or isinstance(value, bool):
        return masked(value)
    return masked_value(name, value) if isinstance(value, str) else MASK


def _masked_text(text: str) -> str:
    if text.lstrip()[:1] in ("{", "["):
        try:
            found = json.loads(text)
        except (ValueError, RecursionError):
            return MASK if is_secret(text[:1_000]) else text
        hidden = masked(found)
        return text if hidden == found else json.dumps(hidden, ensure_ascii=False)
    return _PASSWORD_OF_URL.sub(rf"\1:{MASK}@", text) if "://" in text else text
