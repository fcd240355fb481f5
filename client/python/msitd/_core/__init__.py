"""What every face of the package records with.

`recorder` has the client, `registration` what hooks can record, `hooks` what torch
modules call, `walk` the tensors and values in their arguments, `leaves` what is
recorded of them, `parts` and `objects` what is inside of them, `skips` what is not
recorded and `not_recorded` how the daemon learns it, `documents` and `requests` which
texts are, `values` what a value is, `memory` the bytes behind a tensor, `identities`
which tensors have the same ones, `placement` how a DTensor lies on the ranks, `steps`
when the token advances, `optimizers` who tells of their steps, `phases` which of them
are prefill, `patterns` which ops are meant, `backward`, `gradients` and `parameters`
what autograd computes, `recomputation` which calls run again, `threads` where each
thread is, `copies` what copies of a model have, `stacks` who called, `module_tree` how
a model is built, `compiled` what torch.compile is told, `graphs` what its graphs hold,
`api` the functions of torch, `torch_version` which torch is too old, `arguments` what
is wrong with a call, `losses` who is told of what was lost, `counters` and `errors`
what a caller gets, `vocabulary` the numbers of msit.h, `interpreters` where none of it
works.
Nothing of it is public by itself.
"""

from msitd._core.interpreters import require_main_interpreter

require_main_interpreter()
