// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>

// The class `Call` of Python, a named tuple, in native code.
namespace msitd::python {

enum CallField {
  kOp,
  kToken,
  kNumber,
  kStack,
  kInputs,
  kIsAgain,
  kCallFieldCount
};

// Returns a borrowed field of a Call.
nanobind::handle FieldOf(const nanobind::tuple& call, CallField field);

// Returns an object of `type`, the class Call, without a backward. Throws
// nanobind::python_error.
nanobind::tuple MakeCall(nanobind::handle type, nanobind::handle op,
                         nanobind::handle token, int32_t number,
                         nanobind::handle stack);

// Returns true if no backward runs the caller; false also if that is unknown.
// `backward_id` returns the id of the running autograd backward; -1 for none.
bool IsOutsideOfBackward(nanobind::handle backward_id);

}  // namespace msitd::python
