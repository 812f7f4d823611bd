"""A certificate that a server makes for itself, and its key: for connections that are to be encrypted, without a certificate authority.

Python's `ssl` reads certificates and makes none. What it takes is small: a point of the curve P-256, one ECDSA signature,
and some thirty fields of DER. It is done once per process, with a key that no other process sees at work: the arithmetic
here takes longer for some keys than for others, which tells nothing to an observer who cannot repeat it. TLS itself is OpenSSL's.

Source: RFC 5280 (certificates), RFC 5915 (keys), FIPS 186-4 (ECDSA, P-256).
"""

from __future__ import annotations

import base64
from hashlib import sha256
from secrets import randbelow, randbits
from typing import NamedTuple

_P = 2**256 - 2**224 + 2**192 + 2**96 - 1
_N = 0xFFFFFFFF00000000FFFFFFFFFFFFFFFFBCE6FAADA7179E84F3B9CAC2FC632551
_G = (
    0x6B17D1F2E12C4247F8BCE6E563A440F277037D812DEB33A0F4A13945D898C296,
    0x4FE342E2FE1A7F9B8EE7EB4A7C0F9E162BCE33576B315ECECBB6406837BF51F5,
)

_INTEGER, _BITS, _OCTETS, _OID, _TEXT, _UTC, _TIME, _SEQUENCE, _SET = 2, 3, 4, 6, 12, 23, 24, 0x30, 0x31
_VERSION, _EXTENSIONS = 0xA0, 0xA3
_CURVE, _PUBLIC = 0xA0, 0xA1

_EC_KEY = bytes.fromhex("2a8648ce3d0201")
_P256 = bytes.fromhex("2a8648ce3d030107")
_ECDSA_SHA256 = bytes.fromhex("2a8648ce3d040302")
_COMMON_NAME = bytes.fromhex("550403")
_BASIC_CONSTRAINTS = bytes.fromhex("551d13")
_V3 = 2

_Point = tuple[int, int]


class SelfMade(NamedTuple):
    """A certificate and its key, as PEM, and the certificate's SHA-256 in hex."""

    certificate: str
    key: str
    fingerprint: str


def make_certificate(name: str) -> SelfMade:
    """Make a key and a certificate of its own for `name`. It has no end, for it lives no longer than its process."""
    secret = randbelow(_N - 1) + 1
    public = _encode_point(_multiply(secret, _G))
    algorithm = _der(_SEQUENCE, _der(_OID, _ECDSA_SHA256))
    subject = _der(_SEQUENCE, _der(_SET, _der(_SEQUENCE, _der(_OID, _COMMON_NAME), _der(_TEXT, name.encode()))))
    told = _der(
        _SEQUENCE,
        _der(_VERSION, _integer(_V3)),
        _integer(randbits(127) | 1),
        algorithm,
        subject,
        # "No well-defined expiration date" (RFC 5280, 4.1.2.5): no clock has to be right.
        _der(_SEQUENCE, _der(_UTC, b"700101000000Z"), _der(_TIME, b"99991231235959Z")),
        subject,
        _der(_SEQUENCE, _der(_SEQUENCE, _der(_OID, _EC_KEY), _der(_OID, _P256)), _bits(public)),
        _der(
            _EXTENSIONS,
            _der(_SEQUENCE, _der(_SEQUENCE, _der(_OID, _BASIC_CONSTRAINTS), _der(_OCTETS, _der(_SEQUENCE)))),
        ),
    )
    certificate = _der(_SEQUENCE, told, algorithm, _bits(_sign(told, secret)))
    key = _der(
        _SEQUENCE,
        _integer(1),
        _der(_OCTETS, secret.to_bytes(32)),
        _der(_CURVE, _der(_OID, _P256)),
        _der(_PUBLIC, _bits(public)),
    )
    return SelfMade(_pem("CERTIFICATE", certificate), _pem("EC PRIVATE KEY", key), sha256(certificate).hexdigest())


def _sign(data: bytes, secret: int) -> bytes:
    """Return the ECDSA signature of data under SHA-256."""
    digest = int.from_bytes(sha256(data).digest())
    once = randbelow(_N - 1) + 1  # a second signature with it would tell the key
    r = _multiply(once, _G)[0] % _N
    s = pow(once, -1, _N) * (digest + r * secret) % _N
    return _der(_SEQUENCE, _integer(r), _integer(s))


def _multiply(factor: int, point: _Point) -> _Point:
    """Return the point that is `factor` times `point`; at least once."""
    found: _Point | None = None
    while factor:
        if factor & 1:
            found = point if found is None else _add(found, point)
        point = _add(point, point)
        factor >>= 1
    assert found is not None, "a factor of 0"
    return found


def _add(one: _Point, other: _Point) -> _Point:
    """Add two points of the curve, of which neither is the other's negative: multiples below its order never are."""
    (x1, y1), (x2, y2) = one, other
    if one == other:
        slope = 3 * (x1 * x1 - 1) * pow(2 * y1, -1, _P)
    else:
        slope = (y2 - y1) * pow(x2 - x1, -1, _P)
    x = (slope * slope - x1 - x2) % _P
    return x, (slope * (x1 - x) - y1) % _P


def _encode_point(point: _Point) -> bytes:
    return b"\x04" + point[0].to_bytes(32) + point[1].to_bytes(32)


def _der(tag: int, *parts: bytes) -> bytes:
    content = b"".join(parts)
    size = len(content)
    if size < 0x80:
        return bytes((tag, size)) + content
    length = size.to_bytes((size.bit_length() + 7) // 8)
    return bytes((tag, 0x80 | len(length))) + length + content


def _integer(value: int) -> bytes:
    return _der(_INTEGER, value.to_bytes(value.bit_length() // 8 + 1))


def _bits(data: bytes) -> bytes:
    return _der(_BITS, b"\0", data)


def _pem(kind: str, data: bytes) -> str:
    text = base64.encodebytes(data).decode()
    return f"-----BEGIN {kind}-----\n{text}-----END {kind}-----\n"
