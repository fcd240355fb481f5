"""Replaces the inputs or outputs of a model's modules by those of a recorded run."""

from __future__ import annotations

import functools
import logging
import threading
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from msitd._core.daemon.ranks import rank_of_process
from msitd._core.guard import FirstHook, GuardedHook
from msitd._core.module import hooked_models
from msitd._core.module.op_names import op_under
from msitd._core.module.wrappers import PLAIN
from msitd._core.patterns import compile_patterns
from msitd._core.removable import Removable
from msitd._core.replacing import replacement

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
    from msitd.query import Connection, Tensor, TensorFilter

_logger = logging.getLogger("msitd")

# Maximum number of failures that are logged one by one.
_TOLD_MAX = 20
# Errors after which the request for a token's tensors is repeated, and the
# pauses before each repetition.
_OF_A_MOMENT = ("UNAVAILABLE", "RESOURCE_EXHAUSTED", "ABORTED")
_PAUSES_S = (0.05, 0.2)
_SIDES = {"inputs": "input", "outputs": "output"}


def inject(
    model: torch.nn.Module,
    run: str | Sequence[str],
    *,
    connection: Connection,
    client: Client | None = None,
    ops: str | Iterable[str] | None = None,
    keep_gradients: bool = False,
    what: str = "inputs",
    rank: int | None = None,
    name: str | None = None,
) -> Injection:
    """Replaces the inputs of the modules of `model` by those recorded in `run`.

    The outputs of a module then depend only on that module, not on the modules
    before it: if they differ from the run, the module itself is wrong.
    Arguments are matched by op, call, index and token. An argument that the run
    does not have, or has with another shape or dtype, is left as it is and
    counted. Call this after `register_hook`: the recorded inputs are those that
    the modules receive.

    With `what="outputs"`, the outputs that the modules compute are recorded,
    and the modules after them receive the outputs of the run. This rules out a
    part of a model as the cause of a difference.

    Args:
        model: The model. Its ops have the names that `register_hook` gives
            them. See `name`.
        run: Name of the run, usually a correct run of the same model. With
            several names, the first run that has a tensor provides it.
        connection: The daemon that has the run, as returned by
            `msitd.query.connect`.
        client: Client that counts the tokens. None: each forward of `model` is
            a token.
        ops: Patterns that select ops. A pattern must match the whole op.
            Default: all ops.
        keep_gradients: Whether gradients flow to the replaced tensors.
        what: "inputs", or "outputs" to replace the results of modules.
        rank: Rank of the run to read. None: the rank of this process, or rank 0
            of a run that has only one rank.
        name: First part of the model's ops in the run. None: the name that the
            hooks of `register_hook` on the model use, or `root`.

    Returns:
        A handle that is also a context manager. `remove()`, or leaving the
        context, ends the injection.

    Raises:
        ValueError: `what` has another value, or `run` is empty. Also if `name`
            is None and the hooks on the model use several names, or `client`
            records another model as `root`.
        QueryError: The daemon has no such run.
    """
    options = InjectionOptions(
        client=client,
        ops=ops,
        keep_gradients=keep_gradients,
        what=what,
        rank=rank,
        name=name,
    )
    return Injection(model, run, connection, options)


@dataclass(frozen=True, kw_only=True)
class InjectionOptions:
    """The options of `inject`, which describes each of them.

    Raises:
        ValueError: `what` has another value.
    """

    client: Client | None
    ops: str | Iterable[str] | None
    keep_gradients: bool
    what: str
    rank: int | None
    name: str | None

    def __post_init__(self) -> None:
        if self.what not in _SIDES:
            raise ValueError(f"what is {self.what!r}, and none of {list(_SIDES)}")


class Injection(Removable):
    """The hooks of one call of `inject`. The model may run on any thread."""

    def __init__(
        self,
        model: torch.nn.Module,
        run: str | Sequence[str],
        connection: Connection,
        options: InjectionOptions,
    ) -> None:
        # torch is installed, since there is a model.
        import torch

        self._tensor_type = torch.Tensor
        self._no_grad = torch.no_grad
        self._side = _SIDES[options.what]
        names = [run] if isinstance(run, str) else list(run)
        # The names of the runs, each with the rank to read.
        self._runs = [
            (name, _rank_of(connection, name, options.rank)) for name in names
        ]
        if not self._runs:
            raise ValueError("run has no name of a run")
        self._said = " and ".join(names)
        self._connection = connection
        self._client = options.client
        self._keeps_gradients = options.keep_gradients
        self._lock = threading.Lock()
        self._token = -1
        self._counts: dict[str, int] = {}
        # The tensors of the runs at this token, by op, call and index.
        self._recorded: dict[tuple[str, int, str], Any] = {}
        self._told_count = 0
        # Number of tensors that were replaced, and that could not be replaced.
        self.replaced_count = 0
        self.kept_count = 0
        self._handles: list[Any] = []
        plain = PLAIN.unwrap(model)
        self._root = options.name or hooked_models.name_of(plain, options.client)
        self._forward_count = 0
        self._put_on(plain, compile_patterns(options.ops))

    def _put_on(self, plain: torch.nn.Module, matches: Callable[[str], Any]) -> None:
        """Puts hooks on the modules whose ops match, and on the model itself."""
        for path, module in PLAIN.named_modules(plain):
            op = op_under(self._root, path)
            if not matches(op):
                continue
            if self._side == "output":
                # Runs after the hooks that record.
                handle: Any = module.register_forward_hook(
                    self._guarded(self._result_hook(op), op)
                )
            else:
                handle = module.register_forward_pre_hook(
                    self._guarded(self._hook(op), op, FirstHook),
                    prepend=True,
                    with_kwargs=True,
                )
            self._handles.append(handle)
        self._handles.append(
            plain.register_forward_pre_hook(
                self._guarded(self._begin_forward, self._root, FirstHook), prepend=True
            )
        )

    def remove(self) -> None:
        """Removes the hooks. Further calls have no effect."""
        for handle in self._handles:
            handle.remove()
        self._handles.clear()

    def count_call(self, path: str) -> None:
        """Counts a call that began before the hooks were there.

        Its inputs are not replaced, but its outputs are.

        Args:
            path: Dotted name of the module, empty for the model.
        """
        op = op_under(self._root, path)
        if self._side == "input":
            self._guarded(self._begin, op)(op)

    def _guarded(
        self, hook: Callable[..., Any], op: str, kind: type[GuardedHook] = GuardedHook
    ) -> GuardedHook:
        """Returns a hook that, if it fails, replaces nothing and counts the failure."""
        return kind(hook, functools.partial(self._tell, op, ""))

    def _begin_forward(self, *_: Any) -> None:
        self._forward_count += 1
        if self._side == "output":
            # The client may already have advanced to the next token when the
            # model ends.
            with self._lock:
                self._see_token(self._current_token())

    def _result_hook(self, op: str) -> Callable[..., Any]:
        def replace(_: torch.nn.Module, __: tuple[Any, ...], result: Any) -> Any:
            call = self._begin(op)
            if isinstance(result, self._tensor_type):
                return self._replaced(result, op, call, "0")
            return self._replaced(result, op, call, "")

        return replace

    def _hook(self, op: str) -> Callable[..., Any]:
        def replace(
            _: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]
        ) -> Any:
            call = self._begin(op)
            given = tuple(
                self._replaced(each, op, call, str(index))
                for index, each in enumerate(args)
            )
            named = {
                name: self._replaced(each, op, call, name)
                for name, each in kwargs.items()
            }
            return given, named

        return replace

    def _begin(self, op: str) -> int:
        """Returns the number of the call that begins, or ends if outputs are
        replaced.
        """
        with self._lock:
            if self._side == "input" or op != self._root or self._token < 0:
                self._see_token(self._current_token())
            number = self._counts.get(op, 0)
            self._counts[op] = number + 1
        return number

    def _current_token(self) -> int:
        return self._forward_count - 1 if self._client is None else self._client.token

    def _see_token(self, token: int) -> None:
        if token != self._token:
            self._fetch(token)

    def _fetch(self, token: int) -> None:
        """Lists the tensors that the runs have at a token."""
        from msitd import query

        self._token = token
        self._counts.clear()
        self._recorded = {}
        for run, rank in self._runs:
            selected = query.select(io=self._side, tokens=token, ranks=rank)
            for each in self._list(run, selected):
                self._recorded.setdefault((each.op, each.call, each.index), each)

    def _list(self, run: str, selected: TensorFilter) -> list[Tensor]:
        """Lists tensors. Without the list, no argument of the token can be replaced."""
        from msitd.query import QueryError

        for pause_s in _PAUSES_S:
            try:
                return list(self._connection.tensors.list(run, selected))
            except QueryError as error:
                if error.code not in _OF_A_MOMENT:
                    raise
            time.sleep(pause_s)
        return list(self._connection.tensors.list(run, selected))

    def _replaced(self, value: Any, op: str, call: int, index: str) -> Any:
        """Returns a value in which the tensors that the runs have are replaced."""
        if isinstance(value, self._tensor_type):
            return self._replaced_tensor(value, op, call, index)
        if type(value) in (tuple, list):
            return type(value)(
                self._replaced(each, op, call, _path(index, place))
                for place, each in enumerate(value)
            )
        if type(value) is dict:
            return {
                key: self._replaced(each, op, call, _path(index, key))
                for key, each in value.items()
            }
        return value

    def _replaced_tensor(self, value: Any, op: str, call: int, index: str) -> Any:
        recorded = self._recorded.get((op, call, index))
        if recorded is None:
            self._tell(
                op, index, f"{self._said} has no such {self._side} at {self._token}"
            )
            return value
        try:
            # Reading must not be recorded in the model's autograd graph.
            with self._no_grad():
                tensor = self._connection.tensors.read_torch(recorded)
            result = replacement(value, tensor, self._keeps_gradients)
        except Exception as error:  # noqa: BLE001 - never the model's problem
            self._tell(op, index, error)
            return value
        self.replaced_count += 1
        return result

    def _tell(self, op: str, index: str, reason: object) -> None:
        self.kept_count += 1
        self._told_count += 1
        if self._told_count <= _TOLD_MAX:
            _logger.warning("%s %s is not replaced: %s", op, index, reason)


def _path(index: str, key: object) -> str:
    return f"{index}.{key}" if index else str(key)


def _rank_of(connection: Connection, run: str, rank: int | None) -> int:
    """Returns the rank of a run that corresponds to this process."""
    if rank is not None:
        return rank
    return 0 if connection.runs.get(run).world_size <= 1 else rank_of_process()[0]
