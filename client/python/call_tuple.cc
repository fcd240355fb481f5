// SPDX-License-Identifier: Apache-2.0
#include "client/python/call_tuple.h"

namespace nb = nanobind;

namespace msitd::python {

nb::handle FieldOf(const nb::tuple& call, CallField field) {
  return PyTuple_GetItem(call.ptr(), field);
}

nb::tuple MakeCall(nb::handle type, nb::handle op, nb::handle token,
                   int32_t number, nb::handle stack) {
  const nb::tuple fields =
      nb::make_tuple(op, token, number, stack, nb::none(), false);
  // The same as the class does, without its Python frame.
  static const auto make_tuple =
      reinterpret_cast<newfunc>(PyType_GetSlot(&PyTuple_Type, Py_tp_new));
  PyObject* const call = make_tuple(reinterpret_cast<PyTypeObject*>(type.ptr()),
                                    nb::make_tuple(fields).ptr(), nullptr);
  if (call == nullptr) throw nb::python_error();
  return nb::steal<nb::tuple>(call);
}

bool IsOutsideOfBackward(nb::handle backward_id) {
  const nb::object id = backward_id();
  return PyLong_Check(id.ptr()) && PyLong_AsLong(id.ptr()) == -1;
}

}  // namespace msitd::python
