"""What autograd computes.

`backward` is for a hooked model, with `gradients` of what modules get and give and
`parameters` of what they own; `graph_gradients` is for the graphs of torch.compile.
"""
