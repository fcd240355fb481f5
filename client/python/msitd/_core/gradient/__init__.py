"""Recording of the gradients that autograd computes.

`backward` handles one hooked model, with `gradients` for the inputs and outputs
of modules and `parameters` for their parameters. `graph_gradients` handles
graphs of torch.compile.
"""
