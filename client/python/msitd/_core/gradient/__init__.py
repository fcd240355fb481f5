"""Recording of the gradients that autograd computes.

`backward` handles one hooked model, with `gradients` for the inputs and outputs
of modules and `parameters` for their parameters. `inputs` are those of a call
that its backward needs, and `recomputation` finds the first run of recomputed
calls. `graph_gradients` handles graphs of torch.compile.
"""
