// SPDX-License-Identifier: Apache-2.0
#include "client/python/known_children.h"

#include <utility>

namespace nb = nanobind;

namespace msitd::python {
namespace {

// Returns the object of a weak reference, borrowed; None if it is gone.
nb::handle ObjectOf(nb::handle reference) {
  PyObject* const object = PyWeakref_GetObject(reference.ptr());
  if (object == nullptr) throw nb::python_error();
  return object;
}

// Copies a mapping that a program has put in place of a dict.
nb::dict DictOf(nb::handle mapping) {
  nb::dict copy;
  if (PyDict_Update(copy.ptr(), mapping.ptr()) != 0) throw nb::python_error();
  return copy;
}

// Returns whether the entries of `now`, a dict of modules or None by name, are
// others than those of `known`.
bool Differ(nb::handle now, const nb::dict& known) {
  Py_ssize_t position = 0;
  size_t count = 0;
  PyObject* name = nullptr;
  PyObject* child = nullptr;
  while (PyDict_Next(now.ptr(), &position, &name, &child) != 0) {
    if (child == Py_None) continue;
    PyObject* const reference = PyDict_GetItemWithError(known.ptr(), name);
    if (reference == nullptr) {
      if (PyErr_Occurred() != nullptr) throw nb::python_error();
      return true;
    }
    if (ObjectOf(reference).ptr() != child) return true;
    ++count;
  }
  return count != known.size();
}

}  // namespace

KnownChildren::KnownChildren()
    : modules_name_(
          nb::steal<nb::str>(PyUnicode_InternFromString("_modules"))) {}

void KnownChildren::Add(nb::handle module, nb::dict children) {
  PyObject* const reference = PyWeakref_NewRef(module.ptr(), nullptr);
  if (reference == nullptr) throw nb::python_error();
  modules_.push_back({nb::steal(reference), std::move(children)});
}

bool KnownChildren::HaveChanged() const {
  for (const Module& known : modules_) {
    const nb::object module = nb::borrow(ObjectOf(known.reference));
    if (module.is_none()) continue;
    nb::object now =
        nb::steal(PyObject_GetAttr(module.ptr(), modules_name_.ptr()));
    if (!now.is_valid()) throw nb::python_error();
    if (PyDict_Check(now.ptr()) == 0) now = DictOf(now);
    if (Differ(now, known.children)) return true;
  }
  return false;
}

}  // namespace msitd::python
