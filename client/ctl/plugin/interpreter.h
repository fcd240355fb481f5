// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/query/interrupts.h"
#include "protos/base/dtype.h"
#include "protos/os/unique_fd.h"

namespace msitd::ctl {

// What an interpreter runs.
struct InterpreterOptions {
  std::string python;    // A program, searched for as a shell does.
  std::string file;      // The plug-in.
  std::string function;  // The name of the function in it.
  std::string arrays;    // What the function takes: "numpy" or "torch".
  // As msit asks for it: two parameters, and a pair of a value and a text as
  // the result. Answers have `shown` then, and a value that is a text is none.
  bool is_of_msit = false;
  // Time to load the plug-in and try the function.
  std::chrono::milliseconds start_limit{120'000};
  // Time for one pair, from its first byte to the answer.
  std::chrono::milliseconds pair_limit{60'000};
};

// Two tensors, row-major and little-endian.
struct TensorPairBytes {
  std::string_view golden;
  DType golden_dtype = DType::kUnspecified;
  std::string_view target;
  DType target_dtype = DType::kUnspecified;
};

// What a function returned for a pair.
struct PairAnswer {
  bool has_value = false;
  double value = 0;  // Any double.
  std::string text;  // UTF-8 on one line, at most kAnswerTextBytesMax.
  // The value as Python writes it; see InterpreterOptions::is_of_msit.
  std::string shown;
};
inline constexpr size_t kAnswerTextBytesMax = 1024;

// Returns foreign text as an answer may have it: Printable, and not too long.
std::string AnswerText(std::string_view text);

// A Python interpreter that calls one function. It is a child in a process
// group of its own; the destructor kills the group. It can write to stderr
// only, and its stdin is empty. Its answers are foreign: they are checked,
// bounded, and waited for no longer than the limits. Thread-compatible.
//
// Messages, all little-endian:
// - Request: u64 bytes of golden, u64 bytes of target, two dtype names of 16
//   bytes, padded with zeros; then the bytes of both tensors.
// - Answer: "mpr1", u32 kind, u32 bytes of text, f64 value; then the text. The
//   first answer comes without a request, once the function has been tried.
//   Of msit's functions a line with the value is before the text.
class Interpreter {
 public:
  // Errors: INVALID_ARGUMENT, with the reason, if the function cannot be used;
  // FAILED_PRECONDITION if the interpreter cannot; those of Measure.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Start(
      const InterpreterOptions& options, Interrupts& interrupts);

  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Measures one pair. If the function raises, the answer has no value. After
  // an error the interpreter is of no more use.
  //
  // Errors: UNAVAILABLE if the process ended; DEADLINE_EXCEEDED if its time is
  // up; DATA_LOSS if its answer is malformed; CANCELLED by an interrupt.
  absl::StatusOr<PairAnswer> Measure(const TensorPairBytes& pair);

 private:
  using Clock = std::chrono::steady_clock;
  struct Reply;

  Interpreter(const InterpreterOptions& options, Interrupts& interrupts)
      : options_(options), interrupts_(interrupts) {}

  absl::Status Spawn();
  // Sets the deadline of what follows to `limit` from now.
  void SetLimit(std::chrono::milliseconds limit);
  absl::StatusOr<Reply> ReadReply();
  absl::Status Send(std::string_view bytes);
  absl::Status Receive(char* out, size_t size);
  // Waits until the socket is ready for `events`.
  absl::Status Await(short events);
  // Returns how the process ended, once its socket is closed. Kills it if it
  // still runs.
  absl::Status Ended();
  void Kill();

  const InterpreterOptions options_;
  Interrupts& interrupts_;
  pid_t pid_ = -1;
  UniqueFd socket_;
  std::chrono::milliseconds limit_{0};
  Clock::time_point deadline_;
};

}  // namespace msitd::ctl
