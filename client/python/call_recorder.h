// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "client/python/side_recorder.h"

namespace msitd::python {

// Records the ordinary calls of one op of a model under hooks: those inside of
// a pass, outside of any backward, of which only arguments and results are
// recorded. It does for them what the hooks in Python do for all, without a
// frame of Python. Any thread may use it that has the GIL.
class CallRecorder {
 public:
  // What all ops of one `HookHandle` share, by the names that they have there.
  struct Shared {
    nanobind::object client;
    nanobind::object thread;
    // Null for a side that is not recorded. Objects of class SideRecorder.
    nanobind::object input_side;
    nanobind::object output_side;
    bool has_aliases;
    // The tokens to record; None for all.
    nanobind::object tokens;
    nanobind::set begun;
    nanobind::set uncalled;
    nanobind::set backward_ops;
    // The class Call.
    nanobind::object call_type;
    // Tells which backward of autograd runs; -1 for none.
    nanobind::object backward_id;
  };

  // `shared` is a Shared. `off` stands for calls of `op` that are not recorded.
  CallRecorder(nanobind::object shared, nanobind::str op, nanobind::object off);

  // Begins a call. False if it is no ordinary one, and nothing was done.
  // `forward` is the Forward of this thread. Throws what SideRecorder does.
  bool Begin(nanobind::handle forward, const nanobind::tuple& args,
             const nanobind::dict& kwargs);

  // Ends the innermost call; `result` is None if it raised. False if that is
  // no ordinary one, and nothing was done.
  bool End(nanobind::handle forward, nanobind::handle result) const;

 private:
  nanobind::object Identities() const;

  nanobind::object shared_object_;
  const Shared& shared_;
  nanobind::str op_;
  nanobind::object off_;
  msit_client* client_;
  const SideRecorder* input_side_;
  const SideRecorder* output_side_;
  bool has_begun_ = false;
};

}  // namespace msitd::python
