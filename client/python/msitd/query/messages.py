"""Converts between messages of msitd.v1 and the dataclasses of this package.

The message classes are created from descriptors that the package contains, in a
descriptor pool of their own. No code is generated, and other copies of msitd.v1
or google.rpc in the process do not conflict. A dataclass names its message, and
its fields have the names of the message's fields. The dataclass is therefore
the only code that a message needs.
"""

from __future__ import annotations

import dataclasses
import functools
from collections.abc import Callable, Iterable, Mapping
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import Any, SupportsFloat, SupportsIndex, TypeVar

from msitd.query.arguments import named

_DESCRIPTORS = Path(__file__).with_name("protos.binpb")

_T = TypeVar("_T")

# Dataclasses, by the full name of their message.
_classes: dict[str, type[Any]] = {}
_names: dict[type[Any], str] = {}


def mirrors(message: str) -> Callable[[type[_T]], type[_T]]:
    """Makes a dataclass mirror `message` of msitd.v1, such as `Policy.Rule`."""

    def register(mirror: type[_T]) -> type[_T]:
        _classes[f"msitd.v1.{message}"] = mirror
        _names[mirror] = message
        return mirror

    return register


def mirrored() -> dict[str, type[Any]]:
    """Returns all dataclasses by the full names of their messages."""
    return dict(_classes)


def missing(package: str) -> ImportError:
    """Returns the exception to raise if `package` is not installed."""
    return ImportError(
        f"msitd.query needs {package}: pip install 'msitd[query]'", name=package
    )


@functools.cache
def _pool() -> Any:
    try:
        from google.protobuf import descriptor_pb2, descriptor_pool
    except ImportError as error:
        raise missing("protobuf") from error
    files = descriptor_pb2.FileDescriptorSet.FromString(_DESCRIPTORS.read_bytes())
    pool = descriptor_pool.DescriptorPool()
    for file in files.file:
        pool.AddSerializedFile(file.SerializeToString())
    return pool


@functools.cache
def message_class(name: str) -> Any:
    """Returns the class of a message, such as `msitd.v1.Run`.

    Raises:
        ImportError: protobuf is not installed.
    """
    pool = _pool()
    from google.protobuf import message_factory

    return message_factory.GetMessageClass(pool.FindMessageTypeByName(name))


@functools.cache
def merge_rules(name: str) -> dict[str, str]:
    """Returns the rule, such as `SUM`, of each field of a message that has one.

    See `MergeRule` in protos/msitd/v1/merge_rule.proto.
    """
    from google.protobuf import descriptor_pb2

    rule = _pool().FindExtensionByName("msitd.v1.merge_rule")
    # Options are parsed with the class that has the extensions of this pool.
    options_class = message_class("google.protobuf.FieldOptions")
    message = descriptor_pb2.DescriptorProto()
    message_class(name).DESCRIPTOR.CopyToProto(message)
    out = {}
    for field in message.field:
        options = options_class.FromString(field.options.SerializeToString())
        number = options.Extensions[rule]
        if number != 0:
            out[field.name] = rule.enum_type.values_by_number[number].name
    return out


def new(name: str, /, **fields: Any) -> Any:
    """Creates a message of msitd.v1.

    `fields` have the types that `to_message` accepts.
    """
    message = message_class(f"msitd.v1.{name}")()
    _fill(message, fields)
    return message


def to_message(value: Any) -> Any:
    """Converts a dataclass to its message. Fields that are None are omitted.

    Raises:
        ValueError: An enum has no such word, or a number is out of range.
        TypeError: A field has the wrong type.
    """
    if type(value) not in _names:
        raise TypeError(f"expected a class of msitd.query, got {named(value)}")
    return new(_names[type(value)], **_fields_of(value))


def from_message(message: Any) -> Any:
    """Converts a message to its dataclass."""
    return _reader(message.DESCRIPTOR)(message)


def word_of(name: str, first: str) -> str:
    """Returns an enum value as users write it; empty if the value is unspecified.

    `first` is the name of the value 0. The other names may share its prefix.
    """
    if name.endswith("UNSPECIFIED"):
        return ""
    return name.removeprefix(first[: first.rfind("_") + 1]).lower()


def _fields_of(value: Any) -> dict[str, Any]:
    return {f.name: getattr(value, f.name) for f in dataclasses.fields(value)}


def _word(enum: Any, number: int) -> str:
    value = enum.values_by_number.get(number)
    # The daemon is newer than this package.
    return word_of(value.name, enum.values[0].name) if value else str(number)


def _number(enum: Any, word: str) -> int:
    if not word:
        return 0
    words = {_word(enum, value.number): value.number for value in enum.values}
    wanted = word.replace("-", "_")
    # As in msitctl, `msit` is short for `msit_metrics`, a metric set that a
    # report needs.
    for candidate in (wanted, f"{wanted}_metrics"):
        if candidate in words:
            return int(words[candidate])
    known = ", ".join(known for known in words if known)
    raise ValueError(f"{word!r} is none of {known}")


def _is_map(field: Any) -> bool:
    kind = field.message_type
    return kind is not None and kind.GetOptions().map_entry


def _is_repeated(field: Any) -> bool:
    # Protobuf before 6.31 has only `label`, and later versions warn about it.
    if hasattr(field, "is_repeated"):
        return bool(field.is_repeated)
    return bool(field.label == field.LABEL_REPEATED)


def _fill(message: Any, values: Mapping[str, Any]) -> None:
    fields = message.DESCRIPTOR.fields_by_name
    for name, value in values.items():
        if value is None:
            continue
        field = fields[name]
        try:
            _set(message, field, value)
        except TypeError as error:
            raise TypeError(f"{name}: {error}") from None
        except ValueError as error:
            raise ValueError(f"{name}: {error}") from None


def _set(message: Any, field: Any, value: Any) -> None:
    if _is_map(field):
        if not isinstance(value, Mapping):
            raise TypeError(f"expected a mapping, got {named(value)}")
        getattr(message, field.name).update(value)
    elif _is_repeated(field):
        for element in _elements(value):
            if field.message_type is not None:
                made = _as_message(field.message_type, element)
                getattr(message, field.name).add().CopyFrom(made)
            else:
                getattr(message, field.name).append(_scalar(field, element))
    elif field.message_type is None:
        setattr(message, field.name, _scalar(field, value))
    elif isinstance(value, timedelta):
        getattr(message, field.name).FromTimedelta(value)
    else:
        getattr(message, field.name).CopyFrom(_as_message(field.message_type, value))


def _elements(value: Any) -> Iterable[Any]:
    """Returns the elements for a repeated field. A single string is one element."""
    if isinstance(value, (str, bytes)):
        return (value,)
    if not isinstance(value, Iterable):
        raise TypeError(f"expected several values, got {named(value)}")
    return value


def _as_message(descriptor: Any, value: Any) -> Any:
    """Returns `value` as a message of that type."""
    made = to_message(value) if type(value) in _names else value
    if getattr(getattr(made, "DESCRIPTOR", None), "full_name", "") == (
        descriptor.full_name
    ):
        return made
    mirror = _classes.get(descriptor.full_name)
    wanted = descriptor.name if mirror is None else mirror.__name__
    raise TypeError(f"expected a {wanted}, got {named(value)}")


def _scalar(field: Any, value: Any) -> Any:
    """Returns `value` in the type that protobuf accepts for this field."""
    is_text = isinstance(value, str)
    if field.enum_type is not None and is_text:
        return _number(field.enum_type, value)
    kind = field.cpp_type
    if kind == field.CPPTYPE_STRING:
        # Fields of type bytes have the same Python kind; protobuf distinguishes
        # the two.
        if is_text or isinstance(value, (bytes, bytearray)):
            return value
        raise TypeError(f"expected a str, got {named(value)}")
    if kind == field.CPPTYPE_BOOL:
        if isinstance(value, bool) or type(value).__name__ in ("bool_", "bool"):
            return bool(value)
        raise TypeError(f"expected a bool, got {named(value)}")
    if kind in (field.CPPTYPE_DOUBLE, field.CPPTYPE_FLOAT):
        if isinstance(value, SupportsFloat) and not is_text:
            return float(value)
        raise TypeError(f"expected a number, got {named(value)}")
    if isinstance(value, bool) or not isinstance(value, SupportsIndex):
        raise TypeError(f"expected an int, got {named(value)}")
    return value.__index__()


_Reader = Callable[[Any], Any]


@functools.cache
def _reader(descriptor: Any) -> _Reader:
    """Returns the function that converts messages of this type."""
    if descriptor.full_name == "google.protobuf.Timestamp":
        return _datetime
    if descriptor.full_name == "google.protobuf.Duration":
        return lambda m: timedelta(seconds=m.seconds, microseconds=m.nanos // 1000)
    mirror = _classes[descriptor.full_name]
    wanted = [f.name for f in dataclasses.fields(mirror)]
    fields = [descriptor.fields_by_name[name] for name in wanted]
    absent = {field.name: _absent(field) for field in fields}
    dicts = [name for name, value in absent.items() if value == {}]
    present = {field.number: (field.name, _value_reader(field)) for field in fields}

    def read(message: Any) -> Any:
        values = absent.copy()
        for name in dicts:
            values[name] = {}
        # Most fields of most messages are absent.
        for field, value in message.ListFields():
            known = present.get(field.number)
            if known is not None:
                name, convert = known
                values[name] = value if convert is None else convert(value)
        # The constructor of a frozen dataclass is several times slower.
        made = object.__new__(mirror)
        made.__dict__.update(values)
        return made

    return read


def _absent(field: Any) -> Any:
    """Returns the value of a field that a message does not have."""
    if _is_map(field) or _is_metrics(field):
        return {}
    if _is_repeated(field):
        return ()
    if field.has_presence:
        return None
    if field.enum_type is not None:
        return _word(field.enum_type, 0)
    return field.default_value


def _is_metrics(field: Any) -> bool:
    kind = field.message_type
    is_metric = kind is not None and kind.full_name == "msitd.v1.MetricValue"
    return is_metric and _is_repeated(field)


def _value_reader(field: Any) -> _Reader | None:
    """Returns what converts the value of a field; None if it stays as it is."""
    if _is_map(field):
        return dict
    if _is_metrics(field):
        return lambda values: {v.metric: v.value for v in values}
    convert: _Reader | None = None
    if field.message_type is not None:
        convert = _reader(field.message_type)
    elif field.enum_type is not None:
        convert = _word_reader(field.enum_type)
    if not _is_repeated(field):
        return convert
    return tuple if convert is None else lambda values: tuple(map(convert, values))


def _word_reader(enum: Any) -> _Reader:
    words = {value.number: _word(enum, value.number) for value in enum.values}

    def read(number: int) -> str:
        return words.get(number) or _word(enum, number)

    return read


def _datetime(message: Any) -> datetime:
    whole = datetime.fromtimestamp(message.seconds, timezone.utc)
    return whole.replace(microsecond=message.nanos // 1000)
