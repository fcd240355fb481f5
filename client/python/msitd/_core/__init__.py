"""The recording core, which every public part of the package uses. Not public itself.

Modules: `client` has the client, `call` one recorded call, `documents` and `requests` the texts that it
records, `patterns` the patterns of ops, `skips` counts what is not recorded,
`not_recorded` reports that to the daemon, `losses` reports lost records to the
user, `counters` and `errors` are what callers receive, `arguments` explains
invalid arguments, `vocabulary` has the numbers of msit.h, `torch_version`
refuses versions of torch that are too old, and `interpreters` refuses
subinterpreters.

Packages: `leaf` handles tensors and values, `devices` tensors on accelerators,
`module` the modules of torch, `api` its functions, `gradient` autograd, and
`graph` torch.compile.
"""

from msitd._core.interpreters import require_main_interpreter

require_main_interpreter()
