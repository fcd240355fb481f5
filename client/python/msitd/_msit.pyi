import weakref
from collections.abc import Sequence
from typing import TypeAlias

import torch

from msitd._core.call import Call

OK: int
INVALID_ARGUMENT: int
DROPPED: int
TIMEOUT: int
UNAVAILABLE: int
REFUSED: int
UNKNOWN_IDENTITY: int
TOO_LARGE: int
CLOSED: int
FORKED: int

# The location of a record: device, token, op, call, io, index, placement.
Place: TypeAlias = tuple[str | None, int, str, int, int, str, str | None]
# Facts about a tensor: requires_grad, stack, identity.
Facts: TypeAlias = tuple[int, str | None, int]

def last_error() -> str: ...
def version() -> str: ...
def dtype_from_name(name: str, /) -> int: ...
def dtype_bytes(dtype: int, /) -> int: ...

class TorchReader:
    """Reads the memory location of ordinary torch tensors."""

    def __init__(self, exchange: object, tensor: type, parameter: type, /) -> None: ...

class SideRecorder:
    """See `msitd._core.leaf.leaves.Side`; `leaves` handles everything that is
    not ordinary.
    """

    def __init__(
        self,
        client: Client,
        reader: TorchReader,
        io: str,
        io_number: int,
        keeps_values: bool,
        leaves: object,
        /,
    ) -> None: ...
    def record_arguments(
        self,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        call: tuple[object, ...],
        identities: Identities | None,
        /,
    ) -> None: ...
    def record_result(
        self,
        result: object,
        call: tuple[object, ...],
        identities: Identities | None,
        /,
    ) -> None: ...

class Identities:
    """Numbers that identify the bytes of torch tensors within one token, for one thread.

    A tensor keeps its number while torch counts no change of its bytes, and while
    there is no collective, which may change them.
    """

    def __init__(self, reader: TorchReader | None) -> None: ...
    def of(self, tensor: object, /) -> int:
        """Returns the number of the tensor; 0 if its changes cannot be detected."""

    def clear(self) -> None:
        """Forgets all tensors."""

    def __len__(self) -> int:
        """Returns the number of tensors remembered."""

class KnownChildren:
    """The children that the modules of a model had. Keeps no module alive."""

    def __init__(self) -> None: ...
    def add(
        self,
        module: torch.nn.Module,
        children: dict[str, weakref.ref[torch.nn.Module]],
        /,
    ) -> None:
        """Adds a module and its children by name, without names bound to None."""

    def have_changed(self) -> bool:
        """Returns whether a module that still exists has other children now."""

class SharedByCalls:
    """State that the recorders of all ops of one handle share."""

    def __init__(
        self,
        *,
        client: Client,
        thread: object,
        input_side: SideRecorder | None,
        output_side: SideRecorder | None,
        has_aliases: bool,
        tokens: object | None,
        begun: set[str],
        uncalled: set[str],
        backward_ops: set[str],
        call_type: type,
        backward_id: object,
    ) -> None: ...

class CallRecorder:
    """Records the ordinary calls of one op."""

    def __init__(self, shared: SharedByCalls, op: str, off: object, /) -> None: ...
    def begin(
        self, forward: object, args: tuple[object, ...], kwargs: dict[str, object], /
    ) -> bool:
        """Returns False, without any effect, if the call is not ordinary."""

    def end(self, forward: object, result: object, /) -> bool:
        """Returns False, without any effect, if the call is not ordinary."""

class FunctionRecorder:
    """Records the ordinary calls of torch functions."""

    def __init__(
        self,
        *,
        client: Client,
        reader: TorchReader,
        input_side: SideRecorder | None,
        output_side: SideRecorder | None,
        special: tuple[type, ...],
        call_type: type,
        backward_id: object,
    ) -> None: ...
    def begin(
        self,
        op: str,
        token: int,
        stack: str | None,
        args: tuple[object, ...],
        kwargs: dict[str, object],
        identities: Identities | None,
        /,
    ) -> Call | None:
        """Returns None, without any effect, if the call is not ordinary."""

    def end(self, call: Call, result: object, identities: Identities | None, /) -> bool:
        """Returns False, without any effect, if the result is not ordinary."""

class Reservation:
    def spans(self) -> list[tuple[int, int]]: ...
    def publish(self, is_filled: bool, /) -> int: ...

class Recording:
    def __init__(self, client: Client, /) -> None: ...
    def enter(self) -> None: ...
    def leave(self) -> None: ...
    def __enter__(self) -> None: ...
    def __exit__(self, *args: object) -> None: ...

class Client:
    def __init__(
        self,
        endpoint: str | None,
        run: str,
        rank: int,
        world_size: int,
        max_block_us: int,
        buffer_bytes: int | None,
        linger_us: int,
        open_timeout_us: int,
        device: str,
        user_agent: str,
        overflow: int,
        if_exists: int,
        job: str | None,
        main_thread: int,
    ) -> None: ...
    @property
    def open_code(self) -> int: ...
    def record_pointer(
        self,
        data: int,
        dtype: int,
        dims: Sequence[int],
        strides: Sequence[int],
        stride_unit: int,
        place: Place,
        facts: Facts,
        /,
    ) -> int: ...
    def record_buffer(
        self, buffer: object, dtype: int, place: Place, facts: Facts, /
    ) -> int: ...
    def record_dlpack(self, tensor: object, place: Place, facts: Facts, /) -> int: ...
    def record_torch(
        self, reader: TorchReader, tensor: object, place: Place, facts: Facts, /
    ) -> int | None: ...
    def reserve(
        self, dtype: int, dims: Sequence[int], place: Place, facts: Facts, /
    ) -> tuple[int, Reservation | None]: ...
    def memory(self) -> list[tuple[int, int]]: ...
    def record_value(
        self,
        kind: int,
        number: complex | None,
        text: str,
        place: Place,
        stack: str | None,
        /,
    ) -> int: ...
    def record_document(self, text: str, place: Place, /) -> int: ...
    def record_statistics(
        self,
        dtype: int,
        dims: Sequence[int],
        text: str,
        place: Place,
        facts: Facts,
        /,
    ) -> int: ...
    def level_of(self, device: str | None, token: int, op: str, io: int, /) -> int: ...
    def selects(self, token: int, op: str, io: int, /) -> bool: ...
    def selection(self, token: int, /) -> int: ...
    # References, like those of `next_token`: see msit_token_reference in
    # msit.h.
    def token(self) -> int: ...
    def token_number(self, token: int, /) -> int: ...
    def next_token(self) -> int: ...
    def set_token(self, token: int, /) -> int: ...
    def begin_call(self, token: int, op: str, /) -> tuple[int, int]: ...
    def flush(self, timeout_us: int, /) -> int: ...
    def close(self, timeout_us: int, /) -> int: ...
    def counters(
        self,
    ) -> tuple[
        int, int, int, int, int, int, int, int, int, int, int, int, int, int, int, int
    ]: ...
    def run(self) -> str: ...
    def stream_error(self) -> str: ...
