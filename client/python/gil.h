// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>
#include <msit/msit.h>

#include <cstdint>

// How calls of libmsit leave Python and come back.
namespace msitd::python {

// Releases the GIL, and takes it back at the end of the scope.
//
// Once the interpreter is gone, Python unwinds a thread that wants the GIL, and
// C++ frames answer that by ending the process. Nobody waits for such a thread
// any more, so it sleeps until the process ends.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// What libmsit asks while it waits: returns 1 if a signal handler has raised.
// `main_thread` points to a uint64_t, the identity of the main thread or 0.
int32_t HasSignal(void* main_thread);

// Returns `code`. Throws what a signal handler has raised.
int Checked(msit_code code);

// Returns the code of `call`, which runs without the GIL. Throws what a signal
// handler has raised meanwhile.
template <typename Call>
int WithoutGil(Call call) {
  msit_code code = MSIT_OK;
  {
    const GilReleased released;
    code = call();
  }
  return Checked(code);
}

}  // namespace msitd::python
