"""Columns made of a record's hosts: addresses with ports, and offset message ids. Pure.

Few hosts occur in many records, so each is formatted once.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from orbitmq.model.message import Host
from orbitmq.spark.arrow.gather import Bytes, Flags, Positions, gather_bytes, repeat_text, to_arrow, to_texts
from orbitmq.wire.messages.message_id import offset_message_id
from orbitmq.wire.messages.record import HOST_SIZE_V4, HOST_SIZE_V6, parse_host

_HEX = np.frombuffer("".join(f"{value:02X}" for value in range(256)).encode(), np.uint8).reshape(256, 2)
"""The two hexadecimal digits of each byte."""


def format_hosts(packed: npt.NDArray[Any]) -> pa.Array:
    """Return `ip:port` of IPv4 hosts, the 8 bytes of each as one integer."""
    packed = packed.astype(np.uint64)
    if len(packed) and (packed == packed[0]).all():
        return repeat_text(_format_packed(int(packed[0])), len(packed))
    hosts = to_arrow(packed, pa.uint64()).dictionary_encode()
    return to_texts([_format_packed(host) for host in hosts.dictionary.to_pylist()]).take(hosts.indices)


def format_mixed_hosts(data: Bytes, positions: Positions, is_v6: Flags) -> pa.Array:
    """Return `ip:port` of the hosts at `positions`, IPv6 some of them."""
    return to_texts([str(host) for host in _parse_hosts(data, positions, is_v6)])


def format_offset_ids(data: Bytes, positions: Positions, is_v6: Flags, physical_offsets: npt.NDArray[Any]) -> pa.Array:
    """Return the offset message ids of the store hosts at `positions` and the records' physical offsets."""
    if is_v6.any():
        hosts = _parse_hosts(data, positions, is_v6)
        ids = [offset_message_id(host, offset) for host, offset in zip(hosts, physical_offsets.tolist(), strict=True)]
        return to_texts(ids)
    # An id is host and offset in hexadecimal digits, all ids are equally long: the digits of all rows are looked up at
    # once, and lie back to back as Arrow wants its strings.
    offsets = np.ascontiguousarray(physical_offsets.astype(">i8"))
    packed = (gather_bytes(data, positions, HOST_SIZE_V4), offsets.view(np.uint8).reshape(-1, offsets.itemsize))
    digits = np.ascontiguousarray(_HEX[np.concatenate(packed, axis=1)])
    bounds = np.arange(0, digits.size + 1, 2 * (HOST_SIZE_V4 + offsets.itemsize), dtype=np.int32)
    return pa.Array.from_buffers(pa.string(), len(positions), [None, pa.py_buffer(bounds), pa.py_buffer(digits)])


def _parse_hosts(data: Bytes, positions: Positions, is_v6: Flags) -> list[Host]:
    sizes = np.where(is_v6, HOST_SIZE_V6, HOST_SIZE_V4).tolist()
    return [parse_host(data[at : at + size].tobytes()) for at, size in zip(positions.tolist(), sizes, strict=True)]


def _format_packed(host: int) -> str:
    return str(parse_host(host.to_bytes(HOST_SIZE_V4, "big")))
