"""What is recorded of the tensors and values of one side of a call.

`walk` finds them in arguments and results, `parts` and `objects` inside of them,
`leaves` records them. `memory` finds the bytes behind a tensor, `small_elements` gives those below 8 bits a byte, `identities` says
which tensors have the same ones, `placement` how a DTensor lies on the ranks, `values`
what a value is, `stacks` who called, `statistics_text` what another tool found out.
"""
