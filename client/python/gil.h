// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <Python.h>
#include <msit/msit.h>

#include <cstdint>

// Calls of libmsit from Python: releasing the GIL, and checking for signals.
namespace msitd::python {

// Releases the GIL, and acquires it again at the end of the scope.
//
// After the interpreter has ended, Python unwinds a thread that acquires the
// GIL, and C++ frames respond to that by ending the process. Nothing waits for
// such a thread any more, so it sleeps until the process ends.
class GilReleased {
 public:
  GilReleased() : state_(PyEval_SaveThread()) {}
  ~GilReleased();
  GilReleased(const GilReleased&) = delete;
  GilReleased& operator=(const GilReleased&) = delete;

 private:
  PyThreadState* state_;
};

// Callback of libmsit during waits: returns 1 if a signal handler has raised an
// exception. `main_thread` points to a uint64_t, the identity of the main
// thread or 0.
int32_t HasSignal(void* main_thread);

// Returns `code`. Throws the exception that a signal handler has raised.
int Checked(msit_code code);

// Returns the code of `call`, which runs without the GIL. Throws the exception
// that a signal handler has raised during the call.
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
