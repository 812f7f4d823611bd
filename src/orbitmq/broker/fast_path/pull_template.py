"""Templates of pulls: what is the same in pull after pull of one queue is parsed only once. Pure.

Between two pulls of a consumer for a queue its header's text differs in three numbers: where it reads from, what it commits, and
the opaque. The text around them is learnt at the second time, from what the slow path's decoders make of it, and only if
other numbers in its place change these three values and nothing else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import NamedTuple

from orbitmq.broker.fast_path.send_header import TEXT_SIZE_MAX, TEXTS_MAX
from orbitmq.codes import RequestCode
from orbitmq.errors import FrameError, HeaderError
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import Frame
from orbitmq.wire.header import PROBE, decode_header
from orbitmq.wire.headers import PullMessage

_OFFSET = b'"queueOffset":"'
_OFFSET_SIZE = len(_OFFSET)
_COMMIT = b'"commitOffset":"'
_COMMIT_SIZE = len(_COMMIT)
_OPAQUE = b'"opaque":'
_OPAQUE_SIZE = len(_OPAQUE)
_DIGITS_MAX = 18
"""So many digits always fit a long."""
_OPAQUE_DIGITS_MAX = 9


class PlainPull(NamedTuple):
    """A pull by its template: `header` has the offsets of the pull that it was learnt from, which count for nothing."""

    header: PullMessage
    queue_offset: int
    commit_offset: int
    opaque: int


class PullTemplates:
    """The texts that were seen before."""

    def __init__(self) -> None:
        self._headers: dict[bytes, PullMessage] = {}
        self._seen: set[bytes] = set()
        """Texts that came once: most pulls of a queue that is read never again are not worth a template."""

    def read(self, text: bytes) -> PlainPull | None:
        """Return what the text of a header says; None: it has to be parsed."""
        find = text.find
        offset_at = find(_OFFSET) + _OFFSET_SIZE
        offset_end = find(b'"', offset_at)
        commit_at = find(_COMMIT) + _COMMIT_SIZE
        commit_end = find(b'"', commit_at)
        opaque_at = find(_OPAQUE) + _OPAQUE_SIZE
        opaque_end = find(b",", opaque_at)
        # Each number ends where a `find` from its own beginning ends it: so a template's text can be cut in one way only.
        if offset_at < commit_at:
            template = text[:offset_at] + text[offset_end:commit_at] + text[commit_end:opaque_at] + text[opaque_end:]
        else:
            template = text[:commit_at] + text[commit_end:offset_at] + text[offset_end:opaque_at] + text[opaque_end:]
        offset, commit, opaque = text[offset_at:offset_end], text[commit_at:commit_end], text[opaque_at:opaque_end]
        if not (
            offset.isdigit()
            and commit.isdigit()
            and opaque.isdigit()
            and len(offset) <= _DIGITS_MAX
            and len(commit) <= _DIGITS_MAX
            and len(opaque) <= _OPAQUE_DIGITS_MAX
            and (opaque[0] != 48 or len(opaque) == 1)  # JSON knows no number that begins with 0
            and commit_at < opaque_at > offset_at
        ):
            return None
        header = self._headers.get(template)
        if header is None:
            self._learn(text, template, (offset, commit, opaque))
            return None
        return PlainPull(header, int(offset), int(commit), int(opaque))

    def _learn(self, text: bytes, template: bytes, numbers: tuple[bytes, bytes, bytes]) -> None:
        # Of two fields of one name a parser takes the last: such a text means what this cutting does not see.
        is_cut_once = all(text.count(name) == 1 for name in (_OFFSET, _COMMIT, _OPAQUE))
        if len(template) > TEXT_SIZE_MAX or not is_cut_once:
            return
        if template not in self._seen:
            if len(self._seen) >= TEXTS_MAX:
                self._seen.clear()
            self._seen.add(template)
            return
        offset, commit, _ = numbers
        if PROBE in map(int, numbers):  # a probe has to change each number
            return
        probe = b"%d" % PROBE
        probed_text = text.replace(_OFFSET + offset, _OFFSET + probe).replace(_COMMIT + commit, _COMMIT + probe)
        opaque_at = probed_text.find(_OPAQUE) + _OPAQUE_SIZE
        probed_text = probed_text[:opaque_at] + probe + probed_text[probed_text.find(b",", opaque_at) :]
        try:
            command, header = _parse(text)
            probed, probed_header = _parse(probed_text)
        except (FrameError, HeaderError):
            return
        is_plain = (
            command.code == RequestCode.PULL_MESSAGE
            and not command.flag
            and probed == command._replace(opaque=PROBE, ext_fields=probed.ext_fields)
            and (header.queue_offset, header.commit_offset, command.opaque) == tuple(map(int, numbers))
            and probed_header == replace(header, queue_offset=PROBE, commit_offset=PROBE)
        )
        if is_plain:
            if len(self._headers) >= TEXTS_MAX:
                self._headers.clear()
            self._headers[template] = header


def _parse(text: bytes) -> tuple[Command, PullMessage]:
    command = decode_command(Frame(0, text, b""))
    return command, decode_header(PullMessage, command.ext_fields)
