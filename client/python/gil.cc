// SPDX-License-Identifier: Apache-2.0
#include "client/python/gil.h"

#include <cxxabi.h>
#include <nanobind/nanobind.h>
#include <unistd.h>

namespace msitd::python {

GilReleased::~GilReleased() {
  try {
    PyEval_RestoreThread(state_);
  } catch (const abi::__forced_unwind&) {
    while (true) ::pause();
  }
}

int32_t HasSignal(void* main_thread) {
  // Python runs signal handlers only in its main thread. Other threads must not
  // acquire the GIL while they wait in the library, because the main thread may
  // be shutting down the interpreter.
  if (PyThread_get_thread_ident() != *static_cast<uint64_t*>(main_thread)) {
    return 0;
  }
  const nanobind::gil_scoped_acquire acquire;
  if (PyErr_Occurred() != nullptr) return 1;
  // The exception stays set until Checked throws it.
  return PyErr_CheckSignals() == 0 ? 0 : 1;
}

int Checked(msit_code code) {
  // An exception may be set with any code, because the handler may have run
  // just before the call ended. Python accepts no result together with an
  // exception.
  if (PyErr_Occurred() != nullptr) throw nanobind::python_error();
  return code;
}

}  // namespace msitd::python
