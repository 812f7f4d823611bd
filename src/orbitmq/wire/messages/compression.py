"""Compressed bodies: zlib, LZ4 frames, Zstandard frames; the decompressed size is always capped. Pure.

The codecs of LZ4 and Zstandard are loaded at first use: most processes never meet them.
"""

from __future__ import annotations

import sys
import zlib
from enum import IntEnum
from importlib import import_module
from typing import Any

from orbitmq.errors import InvalidArgument
from orbitmq.model.message import BODY_SIZE_MAX, SysFlag

DECOMPRESSED_SIZE_MAX = BODY_SIZE_MAX + 64 * 1024
"""Bytes that a body may have after decompression: the largest body plus the envelope that RocketMQ allows."""

_ZLIB_LEVEL = 5  # Java: DefaultMQProducer's compressLevel
_ZSTD_WINDOW_LOG_MAX = 23  # 8 MiB


class CompressionType(IntEnum):
    """Bits 8 to 10 of sys_flag (Java: CompressionType)."""

    LZ4 = 1
    ZSTD = 2
    ZLIB = 3

    @property
    def sys_flag(self) -> int:
        """The bits that mark a body compressed this way."""
        return SysFlag.COMPRESSED | self.value << 8


def compression_of(sys_flag: int) -> CompressionType | None:
    """Return how a body is compressed, None when it is not. Old senders set no type: theirs is zlib.

    Raises:
        InvalidArgument: a type that RocketMQ does not define.
    """
    if not sys_flag & SysFlag.COMPRESSED:
        return None
    number = (sys_flag & SysFlag.COMPRESSION_MASK) >> 8
    if number > CompressionType.ZLIB:
        raise InvalidArgument("sys_flag", hex(sys_flag), "compression type 0 to 3")
    return CompressionType(number or CompressionType.ZLIB)


def compress(body: bytes, compression: CompressionType = CompressionType.ZLIB) -> bytes:
    """Compress a body; the sender adds `compression.sys_flag` to the message's sys_flag."""
    if compression is CompressionType.ZLIB:
        return zlib.compress(body, _ZLIB_LEVEL)
    if compression is CompressionType.LZ4:
        import lz4.frame

        return bytes(lz4.frame.compress(body))
    packed: bytes = _zstd().compress(body)
    return packed


def decompress(body: bytes | memoryview, sys_flag: int, size_max: int = DECOMPRESSED_SIZE_MAX) -> bytes:
    """Return the body as its sender saw it; a body that is not compressed comes back as it is.

    Args:
        body: as it travels.
        sys_flag: says whether and how it is compressed.
        size_max: bytes; more than that is refused before it is made.

    Raises:
        InvalidArgument: damaged, cut short, an unknown type, or larger than `size_max`.
    """
    compression = compression_of(sys_flag)
    if compression is None:
        return bytes(body)
    try:
        content, is_complete = _DECODERS[compression](body, size_max + 1)
    except _damage_of(compression) as error:
        raise InvalidArgument("body", f"{len(body)} bytes", f"{compression.name} data ({error})") from error
    if len(content) > size_max:
        raise InvalidArgument("body", f"{len(body)} bytes of {compression.name}", f"at most {size_max} decompressed")
    if not is_complete:
        raise InvalidArgument("body", f"{len(body)} bytes of {compression.name}", "a stream that is not cut short")
    return content


def _inflate(body: bytes | memoryview, size: int) -> tuple[bytes, bool]:
    decoder = zlib.decompressobj()
    content = decoder.decompress(body, size)
    return content, decoder.eof


def _decode_lz4(body: bytes | memoryview, size: int) -> tuple[bytes, bool]:
    import lz4.frame

    decoder = lz4.frame.LZ4FrameDecompressor()
    content = bytes(decoder.decompress(body, max_length=size))
    return content, bool(decoder.eof)


def _decode_zstd(body: bytes | memoryview, size: int) -> tuple[bytes, bool]:
    zstd = _zstd()
    # The window is what a frame may make us allocate before it yields a byte.
    decoder = zstd.ZstdDecompressor(options={zstd.DecompressionParameter.window_log_max: _ZSTD_WINDOW_LOG_MAX})
    content = decoder.decompress(body, max_length=size)
    return content, decoder.eof


def _zstd() -> Any:
    """Return Python's own module of 3.14, or its twin for older ones."""
    return import_module("compression.zstd" if sys.version_info >= (3, 14) else "backports.zstd")


_DECODERS = {CompressionType.ZLIB: _inflate, CompressionType.LZ4: _decode_lz4, CompressionType.ZSTD: _decode_zstd}


def _damage_of(compression: CompressionType) -> type[Exception]:
    """Return what the codec raises for damaged data."""
    if compression is CompressionType.ZLIB:
        return zlib.error
    if compression is CompressionType.LZ4:
        return RuntimeError
    error: type[Exception] = _zstd().ZstdError
    return error
