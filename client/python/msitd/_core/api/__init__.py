"""Records the calls of torch's own functions, below the level of modules.

`names` says which functions, `targets` where the installed torch has them and what
their ops are called, `wrapper` stands in their place, `modes` sees those that were
imported before, `calls` records a call, `collectives` those of torch.distributed,
`handle` is what a user gets.
"""
