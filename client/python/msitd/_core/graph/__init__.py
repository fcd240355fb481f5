"""What the graphs of torch.compile hold.

`graphs` puts operators that record into them, `sites` says what each is there for,
`effect_order` keeps their order in inductor. `compiled` keeps all else of the package
out of them.
"""
