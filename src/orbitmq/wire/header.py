"""Typed headers: a dataclass is the documentation, the decoder and the encoder of a request's ext fields.

Decoders and encoders are compiled once per dataclass, when they are first used, as the dataclasses module compiles
`__init__`: a broker decodes one header per message. Of the other methods all headers share one: to compile them for each of some
hundred classes would take a command a tenth of a second. That headers are not changed is what type checkers see to.

    @request(RequestCode.GET_ROUTEINFO_BY_TOPIC)
    class GetRouteInfo:
        topic: str
        accept_standard_json_only: bool | None = None
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Annotated, Any, NamedTuple, TypeVar, dataclass_transform

from orbitmq.errors import FrameError, HeaderError
from orbitmq.wire.command import Command, decode_command
from orbitmq.wire.frame import PREFIX, Frame

H = TypeVar("H")

Int32 = Annotated[int, 32]
"""A Java int; plain `int` is a Java long."""

_WIRE_NAME = "wire_name"


class _Decoders(dict[type, Callable[[Mapping[str, str]], Any]]):
    """Decoders by header type, compiled when first asked for: a process uses few of the eighty headers."""

    def __missing__(self, cls: type) -> Callable[[Mapping[str, str]], Any]:
        self[cls] = decode = _compile_decoder(cls, _fields(cls))
        return decode


class _Encoders(dict[type, Callable[[Any], dict[str, str]]]):
    """Encoders by header type, compiled when first asked for."""

    def __missing__(self, cls: type) -> Callable[[Any], dict[str, str]]:
        self[cls] = encode = _compile_encoder(_fields(cls))
        return encode


_decoders = _Decoders()
_encoders = _Encoders()
_headers: set[type] = set()
_types: dict[int, type] = {}
_codes: dict[type, int] = {}


def wire(name: str, *, default: Any = dataclasses.MISSING) -> Any:
    """Declare a field whose wire name is not its own name in camelCase."""
    return dataclasses.field(default=default, metadata={_WIRE_NAME: name})


def _is_equal(self: Any, other: object) -> bool:
    return other.__class__ is self.__class__ and _values(other) == _values(self)


def _hash(self: Any) -> int:
    return hash(_values(self))


def _repr(self: Any) -> str:
    values = zip(dataclasses.fields(self), _values(self), strict=True)
    return f"{type(self).__name__}({', '.join(f'{field.name}={value!r}' for field, value in values)})"


def _values(value: Any) -> tuple[object, ...]:
    return tuple(getattr(value, field.name) for field in dataclasses.fields(value))


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(wire,))
def header(cls: type[H]) -> type[H]:
    """Class decorator: make a dataclass of a header that no request code names (an answer's)."""
    made: Any = dataclasses.dataclass(slots=True, kw_only=True, eq=False, repr=False)(cls)
    made.__eq__, made.__hash__, made.__repr__ = _is_equal, _hash, _repr
    _headers.add(made)
    return made  # type: ignore[no-any-return]


@dataclass_transform(kw_only_default=True, frozen_default=True, field_specifiers=(wire,))
def request(code: int) -> Callable[[type[H]], type[H]]:
    """Class decorator: make a request header, bound to its code. Binding a code twice fails at import."""

    def bind(cls: type[H]) -> type[H]:
        if code in _types:
            raise TypeError(f"request code {code} is bound to {_types[code].__name__} already")
        made = header(cls)
        _types[code] = made
        _codes[made] = code
        return made

    return bind


def request_type(code: int) -> type | None:
    """Return the header type of a request code, None when there is none."""
    return _types.get(code)


def code_of(header_type: type) -> int:
    """Return the request code that `header_type` travels under."""
    return _codes[header_type]


def bound_codes() -> tuple[int, ...]:
    """Return every request code that has a typed header."""
    return tuple(sorted(_types))


def decode_header(header_type: type[H], ext_fields: Mapping[str, str] | None) -> H:
    """Return the typed header that `ext_fields` spells.

    Raises:
        HeaderError: a field is missing or does not parse; names the field, its value and what is expected.
    """
    return _decoders[header_type](ext_fields or {})  # type: ignore[no-any-return]


def encode_header(value: object) -> dict[str, str]:
    """Return the ext fields of a typed header; fields that are None are left out."""
    return _encoders[type(value)](value)


def parse_int32(text: str) -> int:
    """Parse a Java int."""
    value = int(text)
    if not -0x80000000 <= value <= 0x7FFFFFFF:
        raise ValueError("out of the 32-bit range")
    return value


def parse_int64(text: str) -> int:
    """Parse a Java long."""
    value = int(text)
    if not -0x8000000000000000 <= value <= 0x7FFFFFFFFFFFFFFF:
        raise ValueError("out of the 64-bit range")
    return value


def parse_bool(text: str) -> bool:
    """Parse a Java boolean: anything but `true` in any case is false."""
    return text == "true" or text.lower() == "true"


def format_bool(value: bool) -> str:
    """Format a boolean as Java does."""
    return "true" if value else "false"


_KINDS: dict[Any, tuple[str, str, str]] = {
    # type: (parser, formatter, what an error says was expected)
    str: ("", "{}", "text"),
    int: ("parse_int64", "str({})", "a 64-bit integer"),
    Int32: ("parse_int32", "str({})", "a 32-bit integer"),
    bool: ("parse_bool", "format_bool({})", "true or false"),
}


class _Field:
    """One field of a header as the compiler needs it: wire name, default, parser, formatter."""

    def __init__(self, field: dataclasses.Field[Any], hint: Any) -> None:
        self.name = field.name
        first, *rest = field.name.split("_")
        self.wire_name: str = field.metadata.get(_WIRE_NAME) or first + "".join(part.capitalize() for part in rest)
        self.default = field.default
        self.is_required = field.default is dataclasses.MISSING
        if typing.get_origin(hint) in (types.UnionType, typing.Union):
            (hint,) = (kind for kind in typing.get_args(hint) if kind is not types.NoneType)
        self.parser, self.formatter, self.expected = _KINDS[hint]


def _fields(cls: type) -> list[_Field]:
    if cls not in _headers:
        raise TypeError(f"{cls.__name__} is not a header")
    hints = typing.get_type_hints(cls, include_extras=True)
    return [_Field(field, hints[field.name]) for field in dataclasses.fields(cls)]


def _compile_decoder(cls: type, fields: list[_Field]) -> Callable[[Mapping[str, str]], Any]:
    """Compile the function that makes a header from ext fields."""
    scope: dict[str, Any] = {"cls": cls, "new": object.__new__}
    lines = ["def decode(fields):", "    get = fields.get", "    header = new(cls)"]
    for number, field in enumerate(fields):
        if field.is_required:
            lines += [f"    text = fields[{field.wire_name!r}]", *_assign(field, "    ")]
        else:
            scope[f"default{number}"] = field.default
            lines += [
                f"    if (text := get({field.wire_name!r})) is None:",
                f"        header.{field.name} = default{number}",
                "    else:",
                *_assign(field, "        "),
            ]
    lines.append("    return header")
    compiled = _run("\n".join(lines), scope)["decode"]

    def decode(ext_fields: Mapping[str, str]) -> Any:
        try:
            return compiled(ext_fields)
        except (KeyError, ValueError):
            # The fast code says only that something is wrong: the error names field, value and type.
            raise _explain(cls, fields, ext_fields) from None

    return decode


def _assign(field: _Field, indent: str) -> list[str]:
    """Return the lines that parse `text` into a header's field: the parsers below, written out."""
    if field.parser == "parse_bool":
        return [f"{indent}header.{field.name} = text == 'true' or text.lower() == 'true'"]
    if not field.parser:
        return [f"{indent}header.{field.name} = text"]
    limit = "0x80000000" if field.parser == "parse_int32" else "0x8000000000000000"
    return [
        f"{indent}if not -{limit} <= (number := int(text)) < {limit}: raise ValueError(text)",
        f"{indent}header.{field.name} = number",
    ]


def _compile_encoder(fields: list[_Field]) -> Callable[[Any], dict[str, str]]:
    lines = ["def encode(value):", "    fields = {}"]
    for field in fields:
        text = field.formatter.format("found")
        lines += [
            f"    if (found := value.{field.name}) is not None:",
            f"        fields[{field.wire_name!r}] = {text}",
        ]
    lines.append("    return fields")
    encode: Callable[[Any], dict[str, str]] = _run("\n".join(lines), {"format_bool": format_bool})["encode"]
    return encode


def _run(source: str, scope: dict[str, Any]) -> dict[str, Any]:
    # Only names and defaults of our own dataclasses stand in this source, never a peer's data.
    exec(source, scope)  # noqa: S102
    return scope


def _explain(cls: type, fields: list[_Field], ext_fields: Mapping[str, str]) -> HeaderError:
    parsers: dict[str, Callable[[str], object]] = {
        "": str,
        "parse_int32": parse_int32,
        "parse_int64": parse_int64,
        "parse_bool": parse_bool,
    }
    for field in fields:
        text = ext_fields.get(field.wire_name)
        if text is None:
            if field.is_required:
                return HeaderError(f"{cls.__name__}: the field {field.wire_name} is missing")
            continue
        try:
            parsers[field.parser](text)
        except ValueError:
            return HeaderError(
                f"{cls.__name__}: the field {field.wire_name} is {text!r:.80}, expected {field.expected}"
            )
    return HeaderError(f"{cls.__name__}: the fields do not form a header")


OPAQUE = b'"opaque":'
OPAQUE_SIZE = len(OPAQUE)
OPAQUE_DIGITS_MAX = 9
"""Digits of an opaque that is taken from its text; longer ones may not fit the wire's 32 bits."""
TEXT_SIZE_MAX = 1_024
"""Bytes of a header that is worth keeping: honest ones have 150 to 700, and unknown clients choose how many are kept."""
PROBE = 987_654_321
"""An opaque that has as many digits."""


class CutAnswer(NamedTuple):
    """An encoded answer without its opaque: the bytes before it, by its number of digits, and the bytes behind it."""

    prefixes: tuple[bytes, ...]
    rest: bytes


def is_plain_opaque(digits: bytes) -> bool:
    """Return True if a JSON number is a natural number that stands for an opaque as it is written."""
    return digits.isdigit() and len(digits) <= OPAQUE_DIGITS_MAX and (digits[0] != 48 or len(digits) == 1)


def split_header(frame: Frame, command: Command) -> tuple[bytes, bytes] | None:
    """Return the header's text before and after the opaque; None when it cannot be remembered.

    It can if the digits behind `"opaque":` are the opaque and nothing else: the header is parsed a second time with
    other digits, `PROBE`, in their place, and must differ in the opaque alone.
    """
    header = frame.header
    if frame.serialize_type or command.is_oneway or len(header) > TEXT_SIZE_MAX or header.count(OPAQUE) != 1:
        return None
    before, _, rest = header.partition(OPAQUE)
    digits, comma, after = rest.partition(b",")
    if not comma or digits != b"%d" % command.opaque or command.opaque == PROBE:
        return None
    probe = b"%b%b%d,%b" % (before, OPAQUE, PROBE, after)
    try:
        probed = decode_command(Frame(0, probe, frame.body))
    except FrameError:
        return None
    return (before, comma + after) if probed == command._replace(opaque=PROBE) else None


def cut_answer(frame: bytes, body_size: int = 0) -> CutAnswer:
    """Cut a JSON answer whose opaque is `PROBE`, without its body of so many bytes, where the opaque stands."""
    digits = b"%d" % PROBE
    position = frame.index(digits, frame.index(OPAQUE))
    size, mark = PREFIX.unpack_from(frame)
    shorter = [OPAQUE_DIGITS_MAX - count for count in range(OPAQUE_DIGITS_MAX + 1)]
    prefixes = tuple(PREFIX.pack(size - less, mark - less) + frame[PREFIX.size : position] for less in shorter)
    return CutAnswer(prefixes, frame[position + len(digits) : len(frame) - body_size])
