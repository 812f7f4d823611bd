"""Request signatures of RocketMQ's ACL: the sender of a request, and whether it was changed.

The signature covers the values of all ext fields but itself, in the order of their names, followed by the body.

Source: docs/formats/wire_frame.md, "Signatures"; Java AclClientRPCHook, AclUtils.combineRequestContent, AclSigner.
"""

from __future__ import annotations

import base64
import hashlib
import hmac
from collections.abc import Mapping
from dataclasses import dataclass, field

from orbitmq.errors import InvalidArgument
from orbitmq.wire.command import Command

ACCESS_KEY = "AccessKey"
SIGNATURE = "Signature"
SECURITY_TOKEN = "SecurityToken"


@dataclass(frozen=True, slots=True)
class Credentials:
    """An access key and its secret; the secret never shows in a repr, a log or an error."""

    access_key: str
    secret_key: str = field(repr=False)
    security_token: str | None = field(default=None, repr=False)

    def __post_init__(self) -> None:
        for name in ("access_key", "secret_key", "security_token"):
            value = getattr(self, name)
            if not (isinstance(value, str) and value) and (value is not None or name != "security_token"):
                # By its type: it may be a secret that was given in the wrong place.
                raise InvalidArgument(name, type(value).__name__, "a text that is not empty")


def sign(ext_fields: Mapping[str, str] | None, body: bytes, credentials: Credentials) -> dict[str, str]:
    """Return the ext fields with the access key and the signature added."""
    signed = dict(ext_fields or {})
    signed[ACCESS_KEY] = credentials.access_key
    if credentials.security_token is not None:
        signed[SECURITY_TOKEN] = credentials.security_token
    signed[SIGNATURE] = signature_of(signed, body, credentials.secret_key)
    return signed


def sign_command(command: Command, credentials: Credentials | None) -> Command:
    """Return a request as it leaves: signed, where there are credentials."""
    if credentials is None:
        return command
    return command._replace(ext_fields=sign(command.ext_fields, command.body, credentials))


def signature_of(ext_fields: Mapping[str, str], body: bytes, secret_key: str) -> str:
    """Return the signature that the fields and the body have under `secret_key` (HMAC-SHA1, Base64)."""
    values = "".join(ext_fields[name] for name in sorted(ext_fields) if name != SIGNATURE)
    digest = hmac.new(secret_key.encode(), values.encode() + body, hashlib.sha1).digest()
    return base64.b64encode(digest).decode()


def is_signed_by(ext_fields: Mapping[str, str], body: bytes, secret_key: str) -> bool:
    """Return True if the fields carry the right signature; takes the same time whatever they carry."""
    claimed = ext_fields.get(SIGNATURE, "").encode()
    return hmac.compare_digest(claimed, signature_of(ext_fields, body, secret_key).encode())
