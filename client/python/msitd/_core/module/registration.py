"""The public function that puts hooks on a torch model, with all of its options."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from typing import TYPE_CHECKING, Literal

from msitd._core.module.hooks import HookHandle
from msitd._core.module.options import HookOptions

if TYPE_CHECKING:
    import torch

    from msitd._core.client import Client
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
    requests: Callable[[], Requests] | Literal[False] | None = None,
    name: str | None = None,
) -> HookHandle:
    """Records inputs and outputs of every module of `model` in each forward.

    The op is `root` for the model itself and `root.<dotted name>` for the
    modules inside; see `name`. A module with several names is recorded under
    the first one. Wrappers of torch have no name of their own, so that ops are
    the same with and without them: `DistributedDataParallel`,
    `FullyShardedDataParallel`, `checkpoint_wrapper`, `AveragedModel`,
    `torch.compile`. The index is the position of a positional argument or of an
    element of the result, the name of a keyword argument or of a key, or a
    dotted path of these where tensors are nested: `0`, `1.0`, `attention_mask`.
    The only tensor of a result is `0`.

    The modules of the model are recorded once, by this call, as the document
    `module_tree.json` of the rank: class, parent, and own parameters and
    buffers of each module. If modules are added or replaced later, the next
    forward puts hooks on them and records another version of the document.

    Hooks see calls of modules. They do not see a direct call of a module's
    `forward()`, or a function that receives the weight of a module. Such
    modules are counted in `HookHandle.skipped`, and logged when the hooks are
    removed or the client is closed.

    Inputs are copied before the module runs and outputs when it returns, so
    later changes in place do not alter the record. A problem with a tensor is
    logged once and counted; it never reaches the model. A tensor that does not
    lie in one piece of memory is recorded in parts, such as `0.indices` and
    `0.values`. For a tensor without bytes, a value is recorded that states
    this.

    `torch.compile` may compile the model, before or after this call, as a whole
    or in part, also with `fullgraph=True`. Ops keep the names that they have
    without it. The records are part of the graphs and do not break them; none
    of them is an alias. All graphs of the process are recompiled when hooks are
    added or removed. Where a version of torch does not support this, each
    recorded module causes a graph break, and a warning reports it once. With
    `fullgraph=True`, the first call then raises torch's own exception.

    Where the capture policy selects nothing, modules inside the model have no
    hooks. Hooks are put on and taken off when a forward begins, and keep their
    position among the hooks of others. The model itself and its children keep
    their hooks, which check the policy. All hooks stay on if a graph of
    torch.compile contains them, or if a module runs outside a forward of the
    model. A call for which the policy selects nothing is not counted as a call
    of its op: if a policy begins in the middle of a token, calls are numbered
    from there.

    Args:
        model: The module, on any device, of any dtype.
        client: The client that records. It must stay open until the hooks are
            removed.
        inputs: Whether to record positional and keyword arguments.
        outputs: Whether to record results.
        weights: Whether to record every parameter once, by this call, with io
            `weight`, the op of its module, and its name as index.
        values: Whether to record arguments and elements of results that are not
            tensors, as `Client.record_value` does: numbers, strings, None,
            dtypes and others, at most 256 for each side of a call. A result
            that is None is not recorded.
        stack: Which part of the Python stack is recorded with each call. `none`
            records nothing, `caller` the innermost frame outside torch and
            msitd, and `full` all frames except those of msitd.
        aliases: Whether a tensor that was already recorded in the same token,
            such as the output of one module that is the input of the next, is
            recorded as an alias of that record: its bytes are neither copied to
            the host nor sent. torch reports which tensors have not changed:
            those with the same storage and version. It does not count every
            change. If the bytes change between two records of a token in one of
            the following ways, the second record shows the bytes of the first.
            A change may be made through `tensor.data`, or through numpy, DLPack
            or another tensor made from the same memory. A kernel may write to
            its argument without a report to torch, as fused and Triton kernels
            often do. A CUDA graph or another process may write to the memory.
            The option is therefore off by default. Tensors of inference mode,
            views of complex conjugates, tensors of subclasses, and
            one-dimensional tensors that need no gradient are always copied, as
            is every tensor across a collective.
        objects: Whether tensors are recorded in objects other than mappings,
            tuples, lists, dataclasses and classes of attrs, such as a cache of
            keys and values that every layer receives. If not, the objects that
            hold tensors are counted; see `HookHandle.skipped`. Objects are
            searched as they are registered with torch's pytree, otherwise by
            their attributes, and not in graphs of `torch.compile`.
        gradients: Whether to record what a backward computes: `grad_output` and
            `grad_input` of each call, with the indexes of its results and
            arguments, and `grad_weight` of each parameter, with its name as
            index, whenever a backward adds to its gradient. Each step of an
            optimizer that holds the parameter is recorded as `state` with the
            index `NAME.grad`, the gradient that the step used. A `grad_input`
            is what this call adds to the gradient of the argument, unless the
            call returns the argument unchanged. If a backward passes through a
            call again, indexes begin with `again1.` and so on. Nothing is added
            to the autograd graph. Graphs of torch.compile contain these
            records, too.
        optimizer_state: Whether to record, after each step, the optimizer's
            state of each parameter, as `state` with indexes such as
            `NAME.exp_avg`. Requires `gradients`.
        op_pattern: Ops to record: one of these patterns must match the whole
            op. `*` matches any bytes, `?` matches one byte. Default: all.
        tokens: Tokens to record. Default: all. For a client that appends
            without waiting (`open_timeout=0`), they count from its first token.
        time: The event that ends a step, and so advances the token of the
            client. `forward` is each forward of `model`, whether it returned or
            raised. `optimizer` is each step of an optimizer that holds
            parameters of `model`. `step` is a call of `HookHandle.step()`.
            `auto` is the appropriate one of these. In inference that is the
            forward. In training it is the optimizer, if there is one: several
            forwards before its step are calls of one token. Without an
            optimizer, the next forward ends the step. A forward is training if
            gradients are enabled and `model` is in training mode and has
            parameters that require gradients. If nothing calls `model` itself,
            but its children, a second call of the same child ends a step
            without training.
        requests: Called when a forward begins. Returns the requests that it
            processes, as `Client.record_requests` takes them. If a request has
            rows, the hooks add the parts of `RequestRows` that the function
            does not return. The lengths of the batch are those of `input_ids`
            or `inputs_embeds`, and the columns are the ones of an
            `attention_mask` of two dimensions. The position is the number of
            ones before the columns. Without a mask, it is the length of the
            cache. In batches of one dimension, it is the number of rows of the
            request so far. A part that cannot be determined is left out.
            Default: models of transformers, except encoder-decoder models,
            record each row of `input_ids` as a request. Its id is derived from
            the tokens of the row, so that a prompt has the same id in all runs.
            If a sequence occurs again in a run, its id ends with `-2` and so
            on. Other models record no requests. False: models of transformers
            record none either.
        name: The op of the model, and the first part of the ops of its modules:
            `G` and `G.0.weight` instead of `root` and `root.0.weight`. For
            programs that record several models. Default: `root`; while the
            client records another model under this name, `root2` and so on,
            which the logger `msitd` reports.

    Returns:
        A handle that is also a context manager. `remove()`, or leaving the
        context, removes the hooks. If the model still has hooks of another
        handle, the logger `msitd` reports it; hooks whose client is closed are
        removed.

    Raises:
        ValueError: An argument is out of its range, or the client records
            another model under `name`.
    """
    return HookHandle(
        model,
        client,
        HookOptions(
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
        ),
    )
