"""Checks the calls of a run by making them again in float64: `msitctl verify`.

`__main__` is the program that msitctl starts, and `worker` runs in a child process of
it. `records` reads the calls of a run, `arguments` builds their arguments, `checking`
checks one call, `golden` writes what is known about it into the golden run, and
`comparing` compares the run with that. `suspects` selects the ops that a comparison
suspects.

`observations` reports modules that are unlike their siblings, which no call by itself
shows. `calls` has the calls of a token as a tree, `siblings` finds the blocks of the
same structure, `unlike` compares their calls, and `attributes` their descriptions.

`table` and `modules` are the fixed tables of functions and classes, the only code that
a run can cause to be executed. `replay` makes a call again, with the `references` of
functions that need one, of which `recurrent` has those of recurrent layers, `dropout`
those of dropout and `gradients` those of a softmax. `noise` estimates how far a correct
result may be from that, with the roundings of single functions in `kernels` and
`coordinates`. `exactness` checks results that are not rounded, and `scores` measures the
others in rounding units. `trees` walks arguments. `unchecked` has the exception for
calls that cannot be checked.

Everything is imported late: checking needs torch, and reading a run needs grpcio.
"""
