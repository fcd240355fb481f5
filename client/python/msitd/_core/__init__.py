"""What every face of the package records with.

`recorder` has the client, `hooks` what torch modules call, `walk` the tensors in
their arguments, `memory` the bytes behind a tensor, `placement` how a DTensor lies
on the ranks, `compiled` what torch.compile is told, `arguments` what is wrong with
a call, `losses` who is told of what was lost, `counters` and `errors` what a caller
gets, `vocabulary` the numbers of msit.h. Nothing of it is public by itself.
"""
