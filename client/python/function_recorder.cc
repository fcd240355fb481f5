// SPDX-License-Identifier: Apache-2.0
#include "client/python/function_recorder.h"

#include <utility>

#include "client/python/call_tuple.h"

namespace nb = nanobind;

namespace msitd::python {
namespace {

// Returns whether `object` is of a class of values that are never special.
bool IsPlainValue(PyObject* object) {
  return object == Py_None || PyBool_Check(object) != 0 ||
         PyLong_CheckExact(object) || PyFloat_CheckExact(object) ||
         PyUnicode_CheckExact(object);
}

}  // namespace

FunctionRecorder::FunctionRecorder(nb::object client, nb::object reader,
                                   nb::object input_side,
                                   nb::object output_side, nb::tuple special,
                                   nb::object call_type, nb::object backward_id)
    : client_object_(std::move(client)),
      reader_object_(std::move(reader)),
      input_side_object_(std::move(input_side)),
      output_side_object_(std::move(output_side)),
      special_(std::move(special)),
      call_type_(std::move(call_type)),
      backward_id_(std::move(backward_id)),
      client_(nb::cast<Client&>(client_object_).get()),
      tensors_(nb::cast<const TorchReader&>(reader_object_)),
      input_side_(SideOf(input_side_object_)),
      output_side_(SideOf(output_side_object_)) {}

nb::object FunctionRecorder::Begin(nb::str op, nb::handle token,
                                   nb::handle stack, const nb::tuple& args,
                                   const nb::dict& kwargs,
                                   nb::handle identities) const {
  const RecordingScope scope(client_);
  for (nb::handle value : args) {
    if (!AreOrdinary(value)) return nb::none();
  }
  if (PyDict_Size(kwargs.ptr()) != 0) {
    for (nb::handle value : nb::steal<nb::list>(PyDict_Values(kwargs.ptr()))) {
      if (!AreOrdinary(value)) return nb::none();
    }
  }
  if (!IsOutsideOfBackward(backward_id_)) return nb::none();
  int32_t number = 0;
  if (msit_begin_call(client_, nb::cast<int64_t>(token), op.c_str(), &number) !=
      MSIT_OK) {
    return nb::none();
  }
  nb::tuple call = MakeCall(call_type_, op, token, number, stack);
  if (input_side_ != nullptr) {
    input_side_->RecordArguments(args, kwargs, call, identities);
  }
  return call;
}

bool FunctionRecorder::End(const nb::tuple& call, nb::handle result,
                           nb::handle identities) const {
  const RecordingScope scope(client_);
  if (!AreOrdinary(result)) return false;
  if (output_side_ != nullptr) {
    output_side_->RecordResult(result, call, identities);
  }
  return true;
}

bool FunctionRecorder::IsOrdinary(nb::handle leaf) const {
  if (tensors_.IsTensor(leaf.ptr())) return tensors_.HasMemory(leaf.ptr());
  if (IsPlainValue(leaf.ptr())) return true;
  const int is_special = PyObject_IsInstance(leaf.ptr(), special_.ptr());
  if (is_special < 0) throw nb::python_error();
  return is_special == 0;
}

bool FunctionRecorder::AreOrdinary(nb::handle value) const {
  if (PyTuple_Check(value.ptr())) {
    for (nb::handle leaf : nb::borrow<nb::tuple>(value)) {
      if (!IsOrdinary(leaf)) return false;
    }
    return true;
  }
  if (PyList_Check(value.ptr())) {
    // Other threads may change a list at the same time.
    for (Py_ssize_t i = 0; i < PyList_Size(value.ptr()); ++i) {
      const nb::object leaf = nb::borrow(PyList_GetItem(value.ptr(), i));
      if (!IsOrdinary(leaf)) return false;
    }
    return true;
  }
  return IsOrdinary(value);
}

}  // namespace msitd::python
