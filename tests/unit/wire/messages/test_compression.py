"""Compressed bodies, and what a hostile one may cost."""

import zlib

import lz4.frame
import pytest
from backports import zstd

from cases import each_case
from orbitmq.errors import InvalidArgument
from orbitmq.model.message import SysFlag
from orbitmq.wire.messages.compression import CompressionType, compress, compression_of, decompress

ALL = list(CompressionType)


@each_case(*ALL)
def test_a_body_survives_compression(compression):
    body = b"a body that repeats itself, " * 100
    packed = compress(body, compression)
    assert len(packed) < len(body)
    assert decompress(packed, compression.sys_flag) == body
    assert decompress(memoryview(packed), compression.sys_flag) == body


def test_a_body_that_is_not_compressed_comes_back_as_it_is():
    assert decompress(memoryview(b"plain"), 0) == b"plain"


def test_old_senders_set_no_type_and_mean_zlib():
    assert compression_of(SysFlag.COMPRESSED) is CompressionType.ZLIB
    assert decompress(zlib.compress(b"old"), SysFlag.COMPRESSED) == b"old"


def test_an_unknown_type_is_refused():
    with pytest.raises(InvalidArgument, match="compression type"):
        decompress(b"", SysFlag.COMPRESSED | 0x400)


@each_case(*ALL)
def test_a_body_of_just_the_limit_passes_and_one_more_byte_does_not(compression):
    assert decompress(compress(bytes(1000), compression), compression.sys_flag, 1000) == bytes(1000)
    with pytest.raises(InvalidArgument, match="at most 999"):
        decompress(compress(bytes(1000), compression), compression.sys_flag, 999)


BOMBS = {
    CompressionType.ZLIB: zlib.compress(bytes(64 << 20), 9),
    CompressionType.LZ4: lz4.frame.compress(bytes(64 << 20)),
    CompressionType.ZSTD: zstd.compress(bytes(64 << 20), level=19),
}


@each_case(*ALL)
def test_a_decompression_bomb_is_refused(compression):
    with pytest.raises(InvalidArgument, match="at most"):
        decompress(BOMBS[compression], compression.sys_flag)


@each_case(*ALL)
def test_a_cut_body_is_refused_at_every_byte(compression):
    packed = compress(b"some text" * 20, compression)
    for size in range(len(packed)):
        with pytest.raises(InvalidArgument, match="body"):
            decompress(packed[:size], compression.sys_flag)


@each_case(*ALL)
def test_garbage_is_refused(compression):
    with pytest.raises(InvalidArgument, match="data"):
        decompress(b"this was never compressed by anybody", compression.sys_flag)


def test_a_zstd_window_of_a_gigabyte_is_refused():
    compressor = zstd.ZstdCompressor(options={zstd.CompressionParameter.window_log: 30})
    packed = compressor.compress(b"x" * 100) + compressor.flush()
    with pytest.raises(InvalidArgument, match="ZSTD data"):
        decompress(packed, CompressionType.ZSTD.sys_flag)
