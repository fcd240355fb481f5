// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>

#include "client/python/native_client.h"
#include "client/python/torch_reader.h"

namespace msitd::python {

// Records one side of calls: either the inputs or the outputs of a model's
// modules. Ordinary tensors, numbers, texts and None, also in tuples, lists and
// dicts, are recorded here. All other leaves are passed to Python, to two
// functions of a LeafRecorder:
//
//   record_other(value, path, depth, io, call, identities, value_count)
//     records `value`, which may be a structure, and returns the new number of
//     values on the side.
//   note_failure(leaf, index, io, call, problem)
//     counts a leaf that is not recorded, with an exception or a code of
//     msit.h.
//
// Any thread that holds the GIL may use it.
class SideRecorder {
 public:
  // `client`, a Client, and `reader` live as long as the recorder. Numbers,
  // texts and None are skipped unless `keeps_values`.
  SideRecorder(nanobind::object client, nanobind::object reader,
               nanobind::str io, int32_t io_number, bool keeps_values,
               nanobind::object leaves);

  // Records the arguments of `call`, a Call of Python, if the capture policy
  // selects any of them. `identities` is an object of class Identities, or
  // None. Throws exceptions of signal handlers, and Python exceptions that do
  // not derive from Exception.
  void RecordArguments(const nanobind::tuple& args,
                       const nanobind::dict& kwargs,
                       const nanobind::tuple& call,
                       nanobind::handle identities) const;

  // Records the result of a call in the same way.
  void RecordResult(nanobind::handle result, const nanobind::tuple& call,
                    nanobind::handle identities) const;

 private:
  class Walk;

  nanobind::object client_;
  nanobind::object reader_;
  nanobind::str io_;
  int32_t io_number_;
  bool keeps_values_;
  nanobind::object record_other_;
  nanobind::object record_arguments_;
  nanobind::object note_failure_;
  msit_client* native_;
  const TorchReader& tensors_;
};

// Returns the SideRecorder that `object` is; null for None.
const SideRecorder* SideOf(nanobind::handle object);

}  // namespace msitd::python
