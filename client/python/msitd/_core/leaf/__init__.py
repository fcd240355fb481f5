"""Recording of the tensors and values on one side of a call.

`walk` finds them in arguments and results, `parts` and `objects` inside other
tensors and objects, and `leaves` records them. `memory` finds the bytes of a
tensor, `small_elements` expands elements below 8 bits to one byte each,
`placement` describes how a DTensor is placed on the ranks, `values` describes
a value, `stacks` the callers, and `statistics_text` statistics of other tools.
`options` are those that `register_hook` and `register_api` have in common.
"""
