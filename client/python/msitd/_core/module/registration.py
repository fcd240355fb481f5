"""The function that puts hooks on a torch model, and all that it can record."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING

from msitd._core.module.hooks import HookHandle

if TYPE_CHECKING:
    import torch

    from msitd._core.recorder import Client
    from msitd._core.requests import Requests


def register_hook(
    model: torch.nn.Module,
    client: Client,
    *,
    inputs: bool = True,
    outputs: bool = True,
    weights: bool = False,
    values: bool = True,
    stack: str = "none",
    aliases: bool = False,
    objects: bool = False,
    gradients: bool = False,
    optimizer_state: bool = False,
    op_pattern: str | Iterable[str] | None = None,
    tokens: Collection[int] | None = None,
    time: str = "auto",
    requests: Callable[[], Requests] | None = None,
    name: str | None = None,
) -> HookHandle:
    """Records inputs and outputs of every sub-module of `model`, per forward.

    The op is `root` for the model itself and `root.<dotted name>` for a
    sub-module; see `name`. A module with several names is recorded under the
    first. Wrappers of torch have no name of their own, so that ops are the same
    with and without them: `DistributedDataParallel`, `FullyShardedDataParallel`,
    `checkpoint_wrapper`, `AveragedModel`, `torch.compile`. The
    index is the position of a positional argument or of an element of the
    result, the name of a keyword argument or of a key, or a dotted path of
    these where tensors are nested: `0`, `1.0`, `attention_mask`. The only
    tensor of a result is `0`.

    The modules of the model are recorded once, now, as the document
    `module_tree.json` of the rank: class, parent, and own parameters and
    buffers of each. If modules are added or replaced later, the next forward
    puts hooks on them and records another version of the document.

    Hooks see calls of modules. A module whose `forward()` is called directly, or
    whose weight is given to a function, is not seen. Such modules are counted in
    `HookHandle.skipped`, and logged when hooks are removed or the client is
    closed.

    Inputs are copied before the module runs, outputs when it returns, so that
    later changes in place do not alter the record. A problem with one tensor is
    logged once and counted; it never reaches the model. A tensor that does not
    lie in one piece of memory is recorded in parts, such as `0.indices` and
    `0.values`. In place of one that has no bytes, a value says so.

    `torch.compile` may compile the model, before or after, as a whole or in
    part, also with `fullgraph=True`. Ops keep the names that they have in the
    model without it. The records are part of its graphs and end none of them;
    none of them is an alias. All graphs of the process are made again when
    hooks are added or removed. Where a version of torch has no means for it, a
    graph ends before every recorded module, and another begins behind it; a
    warning says so once. With `fullgraph=True` the first call raises what torch
    raises then.

    Where the capture policy asks for nothing, modules inside of the model have no
    hooks: they are put on and taken off when a forward begins, in their place
    among hooks of others. The model itself and its children keep theirs, which
    look at the policy. They all stay if a graph of torch.compile has them, or if
    a module runs where no forward of the model does.
    A call of which the policy asks for nothing is not counted as a call of its
    op: if a policy begins in the middle of a token, calls are numbered from
    there.

    Args:
        model: The module, on any device, of any dtype.
        client: Where to record. It must stay open until the hooks are removed.
        inputs: Whether to record positional and keyword arguments.
        outputs: Whether to record results.
        weights: Whether to record every parameter once, now, with io `weight`,
            the op of its module, and its name as index.
        values: Whether to record arguments and elements of results that are no
            tensors, as `Client.record_value` does: numbers, strings, None,
            dtypes and others, 256 of each side of a call at most. A result that
            is None is not recorded.
        stack: Where in the source each call comes from: `none` does not say,
            `caller` names the innermost Python frame outside of torch and
            msitd, `full` all frames but those of msitd.
        aliases: Whether a tensor that was recorded before in the same token,
            such as the output of one module that is the input of the next, is
            recorded as an alias of that record: its bytes are neither brought
            to the host nor copied. Torch says which tensors have not changed:
            those with the same storage and version. It does not count every
            change. Where the bytes change between two records of a token in one
            of these ways, the second record shows the bytes of the first:
            through `tensor.data`; through numpy, DLPack or another tensor that
            was made of the same memory; by a kernel that writes to its argument
            and does not tell torch, as fused and Triton kernels often do; in
            memory that a CUDA graph or another process writes to. So it is off
            by default. Tensors of inference mode, views of complex conjugates,
            tensors of sub-classes, and those of one dimension that need no
            gradient are always copied, and so is each across a collective.
        objects: Whether tensors in objects are recorded that are no mappings,
            tuples, lists, dataclasses or classes of attrs, such as a cache of
            keys and values that every layer is given. If not, the objects that
            hold any are counted; see `HookHandle.skipped`. Objects are searched
            as pytree of torch knows them, else by their attributes, and not in
            graphs of `torch.compile`.
        gradients: Whether to record what a backward computes: `grad_output` and
            `grad_input` of each call, with the indexes of its results and
            arguments; `grad_weight` of each parameter, with its name as index,
            whenever a backward adds to its gradient; and with each step of an
            optimizer that holds it, `state` with the index `NAME.grad`, the
            gradient that was used. A `grad_input` is what this call adds to the
            gradient of the argument, unless the call gives the argument back as
            it is. If a backward goes through a call again, indexes begin with
            `again1.` and so on. Nothing is added to the graph of autograd.
            The graphs of torch.compile hold these records too.
        optimizer_state: Whether to record, after each step, what the optimizer
            keeps for each parameter, as `state` with indexes such as
            `NAME.exp_avg`. It needs `gradients`.
        op_pattern: Ops to record: one of these patterns must match the whole
            op. `*` stands for any bytes, `?` for one. Default: all.
        tokens: Tokens to record. Default: all. They count from the first one of a
            client that appends without waiting (`open_timeout=0`).
        time: What ends a step, and so advances the token of the client:
            `forward`, each forward of `model`, whether it returned or raised;
            `optimizer`, each step of an optimizer that holds parameters of
            `model`; `step`, `HookHandle.step()`; `auto`, what fits. That is the
            forward in inference, and in training the optimizer, if there is
            one: several forwards before its step are calls of one token. Where
            there is none, the next forward ends the step. A forward trains if
            gradients are enabled and `model` is in training mode and has
            parameters that require gradients. If nothing calls `model` itself,
            but its children, a second call of the same child ends a step
            without training.
        requests: Is called when a step begins and returns which requests it
            works at, as `Client.record_requests` takes them.
        name: The op of the model, and the beginning of those of its modules: `G` and
            `G.0.weight` in place of `root` and `root.0.weight`. For programs that
            record several models. Default: `root`; while the client records another
            model under this name, `root2` and so on, which the logger `msitd` says.

    Returns:
        A handle. Its `remove()` takes the hooks away, and so does leaving it as
        a context manager. If the model still has hooks of another handle, the
        logger `msitd` says so; hooks whose client is closed are taken away.

    Raises:
        ValueError: An argument is out of its range. The client records another
            model under `name`.
    """
    return HookHandle(
        model,
        client,
        inputs=inputs,
        outputs=outputs,
        weights=weights,
        values=values,
        stack=stack,
        aliases=aliases,
        objects=objects,
        gradients=gradients,
        optimizer_state=optimizer_state,
        op_pattern=op_pattern,
        tokens=tokens,
        time=time,
        requests=requests,
        name=name,
    )
