"""Calls a function of a plug-in with one pair of tensors after another, or with one
tensor after another.

msitctl runs this program in an interpreter of the user's choice and talks to it
over descriptor 3. interpreter.h describes the messages. It needs numpy and
nothing else.
"""

import faulthandler
import importlib.machinery
import importlib.util
import inspect
import io
import os
import re
import resource
import socket
import struct
import sys
from collections.abc import Callable
from typing import Any

REQUEST = struct.Struct("<QQ16s16sI")
KEEP_REQUEST = struct.Struct("<QI16s")
REPLY = struct.Struct("<4sIId")
ARRAY_COUNT = struct.Struct("<I")
ARRAY = struct.Struct("<64s16sIQ")
MAGIC = b"mpr1"
NO_VALUE, VALUE, REFUSED, UNUSABLE, ARRAYS = range(5)
TEXT_BYTES_MAX = 1024
SHOWN_BYTES_MAX = 256
PRINTED_BYTES_MAX = 64 << 10
ARRAYS_MAX = 64
DIMS_MAX = 32
ARRAY_NAME = re.compile(r"[A-Za-z0-9_.-]{1,64}", re.ASCII)

# Names of types that numpy and msitd share. msitctl converts elements of other types,
# and arrays of other types cannot be returned.
NATIVE_TYPES = {
    *("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"),
    *("uint64", "float16", "float32", "float64", "complex64", "complex128"),
}

# How long an interpreter without a parent may outlive its limit.
GRACE_S = 10.0


class Printed(io.RawIOBase):
    """Output of a plug-in, up to a limit. msitctl passes it on to its stderr."""

    left = PRINTED_BYTES_MAX

    def writable(self) -> bool:
        return True

    def fileno(self) -> int:
        return sys.__stderr__.fileno()

    def write(self, data: Any) -> int:
        raw = bytes(data)
        if Printed.left > 0:
            shown, Printed.left = raw[: Printed.left], Printed.left - len(raw)
            try:
                os.write(2, shown)
                if Printed.left <= 0:
                    os.write(2, b"\n... further output of the plug-in is omitted\n")
            except OSError:
                Printed.left = 0
        return len(raw)


def printed() -> io.TextIOWrapper:
    return io.TextIOWrapper(
        io.BufferedWriter(Printed()), "utf-8", "backslashreplace", line_buffering=True
    )


def reply(channel: socket.socket, kind: int, value: float, text: str) -> None:
    raw = text[:TEXT_BYTES_MAX].encode("utf-8", "replace")[:TEXT_BYTES_MAX]
    raw = raw.decode("utf-8", "ignore").encode()
    channel.sendall(REPLY.pack(MAGIC, kind, len(raw), value) + raw)


def described(error: BaseException) -> str:
    try:
        return f"{type(error).__name__}: {error}".removesuffix(": ")
    except Exception:  # noqa: BLE001  It is foreign code.
        return type(error).__name__


def load(file: str, name: str, kind: str) -> Any:
    """Returns the function. Raises an exception whose text is for the user."""
    sys.path.append(os.path.dirname(os.path.abspath(file)))
    stem = os.path.basename(file).removesuffix(".py")
    if stem in sys.modules:
        stem = "plugin_" + stem
    loader = importlib.machinery.SourceFileLoader(stem, file)
    spec = importlib.util.spec_from_loader(stem, loader)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[stem] = module
    loader.exec_module(module)
    if not hasattr(module, name):
        raise LookupError(f"there is no {name} in it")
    function = getattr(module, name)
    if not callable(function):
        raise TypeError(f"{name} is not a function")
    try:
        signature = inspect.signature(function)
        signature.bind(None, None)
        if kind == "msit" and len(signature.parameters) != 2:
            raise TypeError(f"it has {len(signature.parameters)} parameters")
    except TypeError as error:
        raise TypeError(f"{name} does not take two arguments: {error}") from None
    except ValueError:
        pass  # Some functions written in C have no signature.
    return function


def parts_of(result: Any) -> tuple[float | None, str]:
    """Splits the result of a function into value and text."""
    value, text = result, ""
    if isinstance(result, (tuple, list)):
        if len(result) != 2:
            raise TypeError(f"{len(result)} results, not a value and a text")
        value, text = result
    if not isinstance(text, str):
        raise TypeError(f"the text is of type {type(text).__name__}")
    if isinstance(value, str):
        return None, f"{value} {text}".strip()
    if value is None:
        return None, text
    try:
        return float(value), text
    except (TypeError, ValueError):
        raise TypeError(f"the value is of type {type(value).__name__}") from None


def parts_of_msit(result: Any) -> tuple[float | None, str]:
    """The same for a function of msit: a line with the value precedes the text."""
    if not isinstance(result, (tuple, list)) or len(result) != 2:
        raise TypeError("the result is not a pair of a value and a text")
    value, text = result
    if not isinstance(value, (float, int, str)):
        raise TypeError(f"the value is of type {type(value).__name__}")
    if not isinstance(text, str):
        raise TypeError(f"the text is of type {type(text).__name__}")
    kind = next(kind for kind in (bool, int, float, str) if isinstance(value, kind))
    text = f"{kind(value)!r:.{SHOWN_BYTES_MAX}}\n{text}"
    return (None if kind is str else float(value)), text


class Arrays:
    """Makes flat arrays from the bytes of tensors."""

    def __init__(self, kind: str) -> None:
        import numpy

        self.numpy = numpy
        self.torch: Any = None
        if kind == "torch":
            import torch

            self.torch = torch

    def given(self, array: Any) -> Any:
        return array if self.torch is None else self.torch.from_numpy(array)

    def ones(self) -> Any:
        return self.given(self.numpy.ones(1, self.numpy.float32))

    def of(self, data: Any, dtype: str) -> Any:
        """Returns the elements in `data`, an array of bytes that the result may
        share."""
        if dtype in ("float32", "float64", "complex64", "complex128"):
            return self.given(data.view(dtype))
        elements = data != 0 if dtype == "bool" else data.view(dtype)
        return self.given(elements.astype(self.numpy.float32))

    def kept(self, result: Any, name: str, bytes_max: int) -> list[tuple[str, Any]]:
        """Splits the result of a function into names and arrays."""
        numpy = self.numpy
        named = result if isinstance(result, dict) else {name: result}
        if len(named) > ARRAYS_MAX:
            raise ValueError(f"{len(named)} arrays; the maximum is {ARRAYS_MAX}")
        out = []
        for key, value in named.items():
            if not isinstance(key, str) or not ARRAY_NAME.fullmatch(key):
                raise ValueError(
                    f"{key!r:.80} is not a name: use 1 to 64 letters, digits, _, . and -"
                )
            if value is None:
                continue
            allowed = (numpy.ndarray, numpy.generic, bool, int, float, complex)
            if not isinstance(value, allowed):
                raise TypeError(
                    f"{key} is of type {type(value).__name__}, neither an array of "
                    "numpy nor a number"
                )
            array = numpy.asarray(value)
            if array.dtype.name not in NATIVE_TYPES or array.ndim > DIMS_MAX:
                raise TypeError(
                    f"{key} is an array of {array.dtype.name!s:.80} with "
                    f"{array.ndim} dimensions, which a run cannot have"
                )
            bytes_max -= array.nbytes
            if bytes_max < 0:
                raise ValueError(f"{key} and the previous arrays have too many bytes")
            order = array.dtype.newbyteorder("<")
            out.append((key, numpy.asarray(array, dtype=order, order="C")))
        return out


def receive(channel: socket.socket, data: Any) -> bool:
    """Fills `data`; false at the end of the stream."""
    view = memoryview(data)
    done = 0
    while done < len(view):
        got = channel.recv_into(view[done:])
        if got == 0:
            return False
        done += got
    return True


def serve_one(
    channel: socket.socket,
    function: Any,
    parts: Callable[[Any], tuple[float | None, str]],
    arrays: Arrays,
    limit_s: float,
) -> bool:
    """Answers one request. Returns false when there are no more."""
    header = bytearray(REQUEST.size)
    if not receive(channel, header):
        return False
    golden_bytes, target_bytes, *names, shapes_bytes = REQUEST.unpack(header)
    shapes = bytearray(shapes_bytes)
    if not receive(channel, shapes):
        return False
    golden = arrays.numpy.empty(golden_bytes, arrays.numpy.uint8)
    target = arrays.numpy.empty(target_bytes, arrays.numpy.uint8)
    if not receive(channel, golden) or not receive(channel, target):
        return False
    golden_type, target_type = (name.rstrip(b"\0").decode() for name in names)
    faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=sys.__stderr__)
    value: float | None = None
    try:
        both = [arrays.of(golden, golden_type), arrays.of(target, target_type)]
        # Functions that msit calls get flat arrays from msit, too.
        if parts is parts_of:
            both = [
                array.reshape(dims_of(shape))
                for array, shape in zip(both, shapes.decode().split("\0"), strict=True)
            ]
        value, text = parts(function(*both))
    except BaseException as error:  # noqa: BLE001  It is foreign code.
        text = described(error) if parts is parts_of else "\n" + described(error)
    faulthandler.cancel_dump_traceback_later()
    if value is None:
        reply(channel, NO_VALUE, 0.0, text)
    else:
        reply(channel, VALUE, value, text)
    return True


def reply_arrays(channel: socket.socket, arrays: list[tuple[str, Any]]) -> None:
    head = REPLY.pack(MAGIC, ARRAYS, 0, 0.0) + ARRAY_COUNT.pack(len(arrays))
    for name, array in arrays:
        dtype = array.dtype.name.encode()
        head += ARRAY.pack(name.encode(), dtype, array.ndim, array.nbytes)
        head += struct.pack(f"<{array.ndim}Q", *array.shape)
    channel.sendall(head)
    for _, array in arrays:
        channel.sendall(array.reshape(-1).view("uint8").data)


def place_of(text: str) -> tuple[dict[str, Any], list[int]]:
    """Returns the key of a tensor, in the form passed to the function, and its shape."""
    *texts, shape = text.split("\0")
    names = ("device", "op", "io", "index", "dtype", "rank", "token", "call")
    place: dict[str, Any] = dict(zip(names, texts, strict=True))
    for number in ("rank", "token", "call"):
        place[number] = int(place[number])
    return place, dims_of(shape)


def dims_of(text: str) -> list[int]:
    return [int(dim) for dim in text.split(",") if dim]


def keep_one(
    channel: socket.socket,
    function: Any,
    name: str,
    arrays: Arrays,
    limit_s: float,
    bytes_max: int,
) -> bool:
    """Answers one request of kKeep. Returns false when there are no more."""
    header = bytearray(KEEP_REQUEST.size)
    if not receive(channel, header):
        return False
    data_bytes, place_bytes, dtype = KEEP_REQUEST.unpack(header)
    place = bytearray(place_bytes)
    faulthandler.dump_traceback_later(limit_s + GRACE_S, exit=True, file=sys.__stderr__)
    if not receive(channel, place):
        return False
    try:
        data = arrays.numpy.empty(data_bytes, arrays.numpy.uint8)
    except MemoryError:
        # The bytes are on their way and have to be passed over.
        data = None
        piece = bytearray(1 << 20)
        for at in range(0, data_bytes, len(piece)):
            if not receive(channel, memoryview(piece)[: data_bytes - at]):
                return False
    if data is not None and not receive(channel, data):
        return False
    try:
        if data is None:
            raise MemoryError(f"a tensor of {data_bytes} bytes")
        where, shape = place_of(place.decode())
        array = data.view(dtype.rstrip(b"\0").decode()).reshape(shape)
        kept = arrays.kept(function(array, where), name, bytes_max)
    except BaseException as error:  # noqa: BLE001  It is foreign code.
        faulthandler.cancel_dump_traceback_later()
        reply(channel, NO_VALUE, 0.0, described(error))
        return True
    faulthandler.cancel_dump_traceback_later()
    reply_arrays(channel, kept)
    return True


def main() -> None:
    file, name, kind = sys.argv[1:4]
    limit_s, start_limit_s = map(float, sys.argv[4:6])
    function_kind = sys.argv[6]
    memory_bytes_max, answer_bytes_max = map(int, sys.argv[7:9])
    parts = parts_of_msit if function_kind == "msit" else parts_of
    if sys.path and sys.path[0] == "":
        del sys.path[0]
    os.set_inheritable(3, False)
    sys.stdout, sys.stderr = printed(), printed()
    channel = socket.socket(fileno=3)
    faulthandler.dump_traceback_later(
        start_limit_s + GRACE_S, exit=True, file=sys.__stderr__
    )
    try:
        arrays = Arrays(kind)
    except BaseException as error:  # noqa: BLE001  It is foreign code.
        reply(channel, UNUSABLE, 0.0, described(error))
        return
    try:
        if memory_bytes_max > 0:
            limit = (memory_bytes_max, memory_bytes_max)
            resource.setrlimit(resource.RLIMIT_DATA, limit)
        function = load(file, name, function_kind)
    except BaseException as error:  # noqa: BLE001  It is foreign code.
        reply(channel, REFUSED, 0.0, described(error))
        return
    if function_kind == "keep":
        faulthandler.cancel_dump_traceback_later()
        reply(channel, NO_VALUE, 0.0, "")
        while keep_one(channel, function, name, arrays, limit_s, answer_bytes_max):
            pass
        return
    try:
        parts(function(arrays.ones(), arrays.ones()))
    except BaseException as error:  # noqa: BLE001  It is foreign code.
        text = f"{name} fails for two arrays of one element: {described(error)}"
        reply(channel, REFUSED, 0.0, text)
        return
    faulthandler.cancel_dump_traceback_later()
    reply(channel, NO_VALUE, 0.0, "")
    while serve_one(channel, function, parts, arrays, limit_s):
        pass


if __name__ == "__main__":
    main()
