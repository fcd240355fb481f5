"""What the modules of a torch model do.

`registration` has the public function, `hooks` what modules call, `placed_hooks` which
modules have some, `native_calls` the calls that native code records. `steps` says when
the token advances, `optimizers` who tells of their steps, `phases` which tokens are
prefill. `threads` is where each thread is, `recomputation` which calls run again,
`copies` what copies of a model have, `module_tree` how a model is built. `structure`
notices modules that are put in later, `uncalled` those that hooks did not see,
`fast_paths` those that run other code because of hooks. `graph_hooks` is what graphs of
torch.compile call.
"""
