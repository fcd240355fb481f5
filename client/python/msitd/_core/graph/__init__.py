"""Recording in the graphs of torch.compile.

`graphs` inserts operators that record into graphs. `sites` encodes what each of
these operators records. `effect_order` keeps their order in Inductor.
`compiled` keeps all other code of this package out of the graphs.
"""
