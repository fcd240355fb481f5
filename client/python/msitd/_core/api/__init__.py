"""Recording of the calls of torch's own functions, below the level of modules.

`names` lists the functions, `targets` finds them in the installed torch and
names their ops, `wrapper` replaces them by stand-ins, `modes` finds those that were
imported before, `calls` records a call, `collectives` those of torch.distributed,
`handle` is what the user receives, and `options` are what the user selects.
"""
