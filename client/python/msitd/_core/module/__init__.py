"""Recording of the modules of torch models.

`registration` has the public function and `options` its options. `hooks` has the
handle of the hooks on one model, whose parts share a `context`: `call_hooks` makes
the hooks that record calls, `pass_hooks` those that detect where a pass begins and
ends, and `model_hooks` decides which modules have hooks. `placed_hooks` puts hooks
on modules and takes them off, and `native_calls` lets native code record calls.
`steps` decides when the token advances, `optimizers` watches optimizer steps, and
`phases` distinguishes prefill from decode. `forward_requests` chooses how requests
become known: `given_requests` asks the user's function, and `automatic_requests`
names the sequences of transformers. Both read arguments with `batches`.
`sequence_states` remembers the sequences that continue, and `sequence_caches` where they
are in caches. `threads` is the state of each thread,
`copies` keeps hooks out of copies of a model, and `module_tree` describes the structure of a model. `structure`
detects modules that are added later, `uncalled` modules that hooks did not see, and
`fast_paths` modules that run other code because of hooks. `graph_hooks` is called
by graphs of torch.compile.
"""
