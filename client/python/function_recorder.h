// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

#include "client/python/side_recorder.h"

namespace msitd::python {

// Records the ordinary calls of torch functions. A call is ordinary if it is
// outside any backward, and if its arguments, its result, and the elements of
// those that are lists or tuples are values, or tensors of the classes of torch
// itself that have memory. Any thread that holds the GIL may use it.
class FunctionRecorder {
 public:
  // `client` is a Client, and `reader` a TorchReader. The sides are objects of
  // class SideRecorder, or None if they are not recorded. `special` are the
  // classes whose objects are never ordinary, unless TorchReader::IsTensor
  // holds. `call_type` is the class Call. See IsOutsideOfBackward for
  // `backward_id`.
  FunctionRecorder(nanobind::object client, nanobind::object reader,
                   nanobind::object input_side, nanobind::object output_side,
                   nanobind::tuple special, nanobind::object call_type,
                   nanobind::object backward_id);

  // Begins a call of `op`, and records its arguments. Returns a Call; None,
  // without any effect, if the call is not ordinary. Throws the exceptions of
  // SideRecorder.
  nanobind::object Begin(nanobind::str op, nanobind::handle token,
                         nanobind::handle stack, const nanobind::tuple& args,
                         const nanobind::dict& kwargs,
                         nanobind::handle identities) const;

  // Records the result of `call`. Returns false, without any effect, if the
  // result is not ordinary. Throws the exceptions of SideRecorder.
  bool End(const nanobind::tuple& call, nanobind::handle result,
           nanobind::handle identities) const;

 private:
  bool IsOrdinary(nanobind::handle leaf) const;
  // The same for all elements of a list or tuple.
  bool AreOrdinary(nanobind::handle value) const;

  nanobind::object client_object_;
  nanobind::object reader_object_;
  nanobind::object input_side_object_;
  nanobind::object output_side_object_;
  nanobind::tuple special_;
  nanobind::object call_type_;
  nanobind::object backward_id_;
  msit_client* client_;
  const TorchReader& tensors_;
  const SideRecorder* input_side_;
  const SideRecorder* output_side_;
};

}  // namespace msitd::python
