"""What every face of the package records with.

`recorder` has the client, `documents` and `requests` which texts it records,
`patterns` which ops are meant, `skips` what is not recorded, `not_recorded` how the
daemon learns it, `losses` who is told of what was lost, `counters` and `errors` what a
caller gets, `arguments` what is wrong with a call, `vocabulary` the numbers of msit.h,
`torch_version` which torch is too old, `interpreters` where none of it works.

The rooms: `leaf` is about tensors and values, `devices` about those of accelerators,
`module` about the modules of torch, `api` about its functions, `gradient` about
autograd, `graph` about torch.compile.
Nothing of it is public by itself.
"""

from msitd._core.interpreters import require_main_interpreter

require_main_interpreter()
