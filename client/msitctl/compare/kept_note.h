// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <string>
#include <thread>

#include "client/ask/query/byte_sink.h"
#include "client/msitctl/invocation.h"
#include "client/msitctl/run/keep_function.h"

namespace msitd::msitctl {

// A note about runs that contain the results of a user function instead of
// tensors (`--keep FILE.py:FUNCTION`). The records of these functions are read
// while the runs are compared. Thread-compatible.
class KeptNote {
 public:
  // How long the records are read before the note is needed. If they have not
  // arrived by then, Print reads them.
  static constexpr std::chrono::seconds kReadTime{5};

  // Begins to read. Borrows `invocation`.
  KeptNote(Invocation& invocation, std::string golden, std::string target);
  // Waits until nothing is read, at most for kReadTime.
  ~KeptNote();
  KeptNote(const KeptNote&) = delete;
  KeptNote& operator=(const KeptNote&) = delete;

  // Prints on stderr if a run contains such results, and whether the function
  // is the same in both runs. Prints nothing about a run that cannot be
  // queried.
  void Print();

 private:
  void Read(ask::ReadLimit limit);

  Invocation& invocation_;
  const std::string golden_;
  const std::string target_;
  // Written by the thread until it has ended.
  bool is_read_ = false;
  KeepRecord of_golden_;
  KeepRecord of_target_;
  std::thread thread_;
};

}  // namespace msitd::msitctl
