// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <nanobind/nanobind.h>

#include <vector>

namespace msitd::python {

// The children that the modules of a torch model had at one time. Keeps no
// module alive. For one thread that holds the GIL.
class KnownChildren {
 public:
  KnownChildren();

  // Adds a module. `children` has weak references to its children by name,
  // without names that are bound to None.
  void Add(nanobind::handle module, nanobind::dict children);

  // Returns whether any module has other children now, or other names for
  // them. Modules that no longer exist are ignored, because the parent of a
  // removed module has changed. Throws nanobind::python_error.
  bool HaveChanged() const;

 private:
  struct Module {
    nanobind::object reference;
    nanobind::dict children;
  };

  nanobind::str modules_name_;
  std::vector<Module> modules_;
};

}  // namespace msitd::python
