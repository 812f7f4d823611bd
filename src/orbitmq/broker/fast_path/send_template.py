r"""Templates of plain sends: what is the same in message after message is parsed only once.

Between two messages of one producer its text, of header and properties, differs in a few values: queue, birth time, opaque,
unique key, and the words of KEYS:

```
{"code":310,"extFields":{"a":..,"b":TOPIC,..,"e":QUEUE,"f":FLAGS   ","g":" TIME ","h":"0","i":"..UNIQ_KEY\u0001 KEY
\u0002..","j":"0",..},"flag":0,"language":..,"opaque": OPAQUE ,"serializeTypeCurrentRPC":..,"version":..}
```

The text up to the flags is the head; the text around the other values is the template. A template is learnt when it comes for the
second time, and only where it is proved: with two other heads and other values in their places, the JSON parse of the whole gives
these, and nothing else has changed (`parse_plain_send`, `sending.properties`). The next messages are put together from their
values.

A value is taken only when it is a plain word, so it can neither end its text nor mean something of its own. Whatever
a template says is what the parse would say; a test holds them together. docs/adr/0010-send-fast-path.md has the figures.
"""

from __future__ import annotations

import string
from collections.abc import Sequence
from typing import NamedTuple

from orbitmq.broker.fast_path.send_header import TEXT_SIZE_MAX, TEXTS_MAX, SendHead, parse_head, parse_plain_send
from orbitmq.broker.sending.answers import UNIQUE_KEY
from orbitmq.broker.sending.properties import StoredProperties
from orbitmq.model.message import SysFlag
from orbitmq.store.dispatch import tag_code_of
from orbitmq.store.index.keys import NOTED_SIZE_MAX

PlainMessage = tuple[str, int, int, int, int, bytes, int, bytes | None, bytes, int | None, bytes | None]
"""Topic, queue id, sys_flag, birth time (ms), flag, properties as sent, opaque; then what the properties mean: their stored
form (None: they ask for something special), the unique key, the tag's code (None: to be found out), and the words of KEYS
(None: the keys are to be read from the log). The properties as sent are left out (empty) where the stored form is there and
is all that counts."""

_BORN_AT = b'","g":"'
_BORN_END = len(_BORN_AT) + 13
"""A birth time has thirteen digits from 2001 to 2286."""
_OPAQUE = b'"opaque":'
_OPAQUE_SIZE = len(_OPAQUE)
_OPAQUE_DIGITS_MAX = 9
_ZERO = ord("0")
_KEY = UNIQUE_KEY + b"\x01"
_KEY_SIZE = len(_KEY)
_KEYS = b"KEYS\x01"
_KEY_TEXT = UNIQUE_KEY + b"\\u0001"
_KEY_TEXT_SIZE = len(_KEY_TEXT)
_KEYS_TEXT = b"KEYS\\u0001"
_KEYS_TEXT_SIZE = len(_KEYS_TEXT)
_IN_WORDS = (string.ascii_letters + string.digits + " _-.:;/@#+=,|").encode()
_PROPERTY_END = 2
_PREPARED = SysFlag.TRANSACTION_PREPARED
_PROBE_HEAD = b'{"code":310,"extFields":{"a":"g","b":"%b","c":"t","d":"4","e":"%b","f":"%b'
_PROBE_DIGITS = b"1", b"2"
"""What probes consist of. Two of them: what else a text holds, as a field for the second time, cannot be equal to both."""


class _Template(NamedTuple):
    """Properties around their values: as they are stored, or as they were sent when they ask for something special."""

    parts: tuple[bytes, ...]
    tag_code: int | None
    is_special: bool


class SendTemplates:
    """The forms that were seen before."""

    def __init__(self, properties: StoredProperties) -> None:
        self._plain = properties.plain
        self._heads: dict[bytes, SendHead] = {}
        self._templates: dict[bytes, _Template | tuple[()]] = {}
        """By their text; empty: it means nothing that could be put together."""
        self._seen: set[bytes] = set()
        """Texts that came once. Most of them come never again: the properties of some producers differ in every message."""

    def read(self, text: bytes) -> PlainMessage | None:
        """Return what a plain send's header says; None: it has to be looked at."""
        find = text.find
        head_end = find(_BORN_AT)
        born_end = head_end + _BORN_END
        key_at = find(_KEY_TEXT, born_end) + _KEY_TEXT_SIZE
        key_end = find(b"\\", key_at)
        opaque_at = find(_OPAQUE, key_end) + _OPAQUE_SIZE
        opaque_end = find(b",", opaque_at)
        words_at = words_end = find(_KEYS_TEXT, born_end) + _KEYS_TEXT_SIZE
        words = b""
        # Each piece ends where a `find` from its own beginning ends it: so a form's text can be cut in one way only.
        if words_at < born_end:
            template_text = text[born_end:key_at] + text[key_end:opaque_at] + text[opaque_end:]
        else:
            words_end = find(b"\\", words_at)
            words = text[words_at:words_end]
            if words_at > key_at:
                template_text = text[born_end:key_at] + text[key_end:words_at] + text[words_end:opaque_at]
            else:
                template_text = text[born_end:words_at] + text[words_end:key_at] + text[key_end:opaque_at]
            template_text += text[opaque_end:]
        template = self._templates.get(template_text)
        head = self._heads.get(text[:head_end])
        if template and head is not None:
            parts, tag_code, is_special = template
            topic, queue_id, sys_flag = head
            born_at, key, opaque = text[born_end - 13 : born_end], text[key_at:key_end], text[opaque_at:opaque_end]
            if (
                key.isalnum()
                and len(key) <= NOTED_SIZE_MAX
                and born_at.isdigit()
                and opaque.isdigit()
                and len(opaque) <= _OPAQUE_DIGITS_MAX
                and (opaque[0] != _ZERO or len(opaque) == 1)
                and not (words and words.translate(None, _IN_WORDS))  # to translate nothing costs as much
                and (is_special or not sys_flag & _PREPARED)
            ):
                if len(parts) == 2:
                    properties = parts[0] + key + parts[1]
                elif words_at > key_at:
                    properties = parts[0] + key + parts[1] + words + parts[2]
                else:
                    properties = parts[0] + words + parts[1] + key + parts[2]
                sent, stored = (properties, None) if is_special else (b"", properties)
                return (
                    topic, queue_id, sys_flag, int(born_at), 0, sent, int(opaque),
                    stored, key, tag_code, words if len(words) <= NOTED_SIZE_MAX else None,
                )  # fmt: skip
        spans = [(key_at, key_end), (opaque_at, opaque_end)]
        if words_at >= born_end:
            spans.append((words_at, words_end))
        return self._read_whole(text, template_text, head_end, spans)

    def _read_whole(
        self, text: bytes, template_text: bytes, head_end: int, spans: list[tuple[int, int]]
    ) -> PlainMessage | None:
        """Parse a header, and learn its head and its template when it comes for the second time.

        Args:
            spans: where the unique key, the opaque and the words of KEYS begin and end, if they are there.
        """
        fields = parse_plain_send(text)
        if fields is None:
            return None
        properties = fields[5]
        stored, key = self._plain(properties), unique_key(properties)
        if key is None:
            return None
        is_only_key = 0 < len(key) <= NOTED_SIZE_MAX and _KEYS not in properties
        message = (*fields, stored, key, None, b"" if is_only_key else None)
        if head_end > 0 and len(template_text) <= TEXT_SIZE_MAX and head_end <= TEXT_SIZE_MAX:
            head_text = text[:head_end]
            if template_text in self._templates and head_text in self._heads:
                return message  # it has no template, or its values are not plain words
            # Learnt at the second time: most texts of clients with changing properties come once.
            if template_text in self._seen:
                self._learn(text, template_text, head_text, spans, message)
            else:
                if len(self._seen) >= TEXTS_MAX:
                    self._seen.clear()
                self._seen.add(template_text)
        return message

    def _learn(
        self,
        text: bytes,
        template_text: bytes,
        head_text: bytes,
        spans: list[tuple[int, int]],
        message: PlainMessage,
    ) -> None:
        head = parse_head(head_text)
        if head is None:
            return
        if len(self._heads) >= TEXTS_MAX:
            self._heads.clear()
        self._heads[head_text] = head
        if template_text not in self._templates:
            if len(self._templates) >= TEXTS_MAX:
                self._templates.clear()
            self._templates[template_text] = self._proved_template(text, len(head_text) + _BORN_END, spans, message)

    def _proved_template(
        self, text: bytes, born_end: int, spans: list[tuple[int, int]], message: PlainMessage
    ) -> _Template | tuple[()]:
        """Return the template of a text, empty when other values in its places would mean anything else."""
        properties, stored, key = message[5], message[7], message[8]
        kept = properties if stored is None else stored
        names = [_KEY, _KEYS][: len(spans) - 1]
        values, kept_values = ([_value_at(whole, name) for name in names] for whole in (properties, kept))
        if not key or None in values or None in kept_values:
            return ()
        if _KEYS not in names and _KEYS in properties:  # its name is written with an escape
            return ()
        for digit in _PROBE_DIGITS:
            probes = [digit * (end - start) for start, end in spans]
            born_at, opaque = digit * 13, probes[1]
            probed = _replace(text, born_end, spans, probes)
            if probed is None:
                return ()
            del probes[1]
            wanted = _replace(properties, 0, values, probes), _replace(kept, 0, kept_values, probes)
            head = _PROBE_HEAD % (digit, digit, digit) + _BORN_AT + born_at
            found = parse_plain_send(head + probed)
            if found != (digit.decode(), int(digit), int(digit), int(born_at), 0, wanted[0], int(opaque)):
                return ()
            found_stored = self._plain(found[5])
            if (found[5] if found_stored is None else found_stored) != wanted[1] or (found_stored is None) != (
                stored is None
            ):
                return ()
        # Cut the stored text at its variable values; what is between them is the same in every message.
        at, parts = 0, []
        for start, end in sorted(value for value in kept_values if value is not None):
            parts.append(kept[at:start])
            at = end
        parts.append(kept[at:])
        return _Template(tuple(parts), None if stored is None else tag_code_of("", stored, 0), stored is None)


def _replace(text: bytes, at: int, spans: Sequence[tuple[int, int] | None], values: Sequence[bytes]) -> bytes | None:
    """Return a text from a place on with other values in some spans; None when these are not one behind the other."""
    pieces = []
    for (start, end), value in sorted(
        (span, value) for span, value in zip(spans, values, strict=True) if span is not None
    ):
        if not at <= start < end:
            return None
        pieces += [text[at:start], value]
        at = end
    return b"".join((*pieces, text[at:]))


def _value_at(properties: bytes, name: bytes) -> tuple[int, int] | None:
    """Return where the value of a property begins and ends.

    None: it is not there, is not a plain word, or its name stands elsewhere, too.
    """
    name_at = properties.find(name)
    if name_at < 0:
        return None
    start = name_at + len(name)
    end = properties.find(b"\x02", start)
    is_alone = (not name_at or properties[name_at - 1] == _PROPERTY_END) and properties.find(name, start) < 0
    # A value ends in its text where the first backslash is: that has to be the one of this separator.
    return (start, end) if is_alone and end >= 0 and not properties[start:end].translate(None, _IN_WORDS) else None


def unique_key(properties: bytes) -> bytes | None:
    """Return the message's own id, which the answer repeats: empty without one, None when it is not a plain word."""
    start = properties.find(_KEY)
    if start < 0:
        return b""
    end = properties.find(b"\x02", start)
    value = properties[start + _KEY_SIZE :] if end < 0 else properties[start + _KEY_SIZE : end]
    if (start and properties[start - 1] != _PROPERTY_END) or properties.find(_KEY, start + 1) >= 0:
        return None
    return value if value.isalnum() else None
