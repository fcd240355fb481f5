// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "client/python/side_recorder.h"

namespace msitd::python {

// Records the ordinary calls of one op of a model under hooks. A call is
// ordinary if it is inside a pass, outside any backward, and only its arguments
// and results are recorded. For such calls, this class does the same as the
// Python hooks, without a Python frame. Any thread that holds the GIL may use
// it.
class CallRecorder {
 public:
  // State that all ops of one `HookHandle` share, under the names used there.
  struct Shared {
    nanobind::object client;
    nanobind::object thread;
    // Objects of class SideRecorder. Null for a side that is not recorded.
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
    // Returns the id of the running autograd backward; -1 for none.
    nanobind::object backward_id;
  };

  // `shared` is a Shared. `off` represents calls of `op` that are not recorded.
  CallRecorder(nanobind::object shared, nanobind::str op, nanobind::object off);

  // Begins a call. Returns false, without any effect, if the call is not
  // ordinary. `forward` is the Forward of this thread. Throws the exceptions of
  // SideRecorder.
  bool Begin(nanobind::handle forward, const nanobind::tuple& args,
             const nanobind::dict& kwargs);

  // Ends the innermost call; `result` is None if it raised an exception.
  // Returns false, without any effect, if the call is not ordinary.
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
