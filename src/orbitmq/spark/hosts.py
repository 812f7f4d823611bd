"""Host and message-id columns: few distinct values, so each is formatted once. Pure."""

from __future__ import annotations

from ipaddress import ip_address
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orbitmq.model.message import Host
from orbitmq.wire.message_id import offset_message_id

_V4_SIZE = 8
_V6_SIZE = 20
_ID_LENGTH = 32
_HEX = np.frombuffer("".join(f"{value:02X}" for value in range(256)).encode(), np.uint8).reshape(256, 2)

Bytes = npt.NDArray[np.uint8]
Positions = npt.NDArray[np.int64]


def format_hosts(data: Bytes, positions: Positions, is_v6: npt.NDArray[np.bool_]) -> pa.Array:
    """Return `ip:port` of the hosts at `positions`."""
    if is_v6.any():
        return pa.array([str(host) for host in _parse_hosts(data, positions, is_v6)], pa.string())
    hosts = pa.array(_runs(data, positions).view(">u8").reshape(-1).astype(np.uint64)).dictionary_encode()
    formatted = pa.array(
        [str(_parse_host(value.to_bytes(_V4_SIZE, "big"))) for value in hosts.dictionary.to_pylist()], pa.string()
    )
    return formatted.take(hosts.indices)


def format_offset_ids(
    data: Bytes, positions: Positions, is_v6: npt.NDArray[np.bool_], physical_offsets: npt.NDArray[Any]
) -> pa.Array:
    """Return the offset message ids of the store hosts at `positions` and the records' physical offsets."""
    if is_v6.any():
        hosts = _parse_hosts(data, positions, is_v6)
        ids = [offset_message_id(host, offset) for host, offset in zip(hosts, physical_offsets.tolist(), strict=True)]
        return pa.array(ids, pa.string())
    offsets = np.ascontiguousarray(physical_offsets.astype(">i8")).view(np.uint8).reshape(-1, _V4_SIZE)
    digits = np.ascontiguousarray(_HEX[np.concatenate((_runs(data, positions), offsets), axis=1)])
    bounds = np.arange(0, digits.size + 1, _ID_LENGTH, dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(positions), [None, pa.py_buffer(bounds), pa.py_buffer(digits)])


def _runs(data: Bytes, positions: Positions) -> Bytes:
    if not len(positions):
        return np.empty((0, _V4_SIZE), np.uint8)
    return np.lib.stride_tricks.sliding_window_view(data, _V4_SIZE)[positions]


def _parse_hosts(data: Bytes, positions: Positions, is_v6: npt.NDArray[np.bool_]) -> list[Host]:
    sizes = np.where(is_v6, _V6_SIZE, _V4_SIZE).tolist()
    return [_parse_host(data[at : at + size].tobytes()) for at, size in zip(positions.tolist(), sizes, strict=True)]


def _parse_host(encoded: bytes) -> Host:
    return Host(str(ip_address(encoded[:-4])), int.from_bytes(encoded[-4:], "big"))
