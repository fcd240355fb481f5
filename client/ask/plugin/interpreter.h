// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "protos/base/dtype.h"
#include "protos/base/tensor_key.h"
#include "protos/os/unique_fd.h"

namespace msitd::ask {

enum class FunctionKind : uint8_t {
  kMetric,  // Of a pair: a value, or a value and a text.
  // The same as msit asks for it: two parameters, and a pair of a value and a
  // text as the result. Answers have `shown` then, and a value that is a text
  // is none.
  kMsitMetric,
  kKeep,  // Of a tensor and where it belongs: what is kept of it.
};

// What an interpreter runs.
struct InterpreterOptions {
  std::string python;    // A program, searched for as a shell does.
  std::string file;      // The plug-in.
  std::string function;  // The name of the function in it.
  std::string arrays;    // What the function takes: "numpy" or "torch".
  FunctionKind kind = FunctionKind::kMetric;
  // Time to load the plug-in and try the function. One of kKeep is not tried.
  std::chrono::milliseconds start_limit{120'000};
  // Time for one call, from its first byte to the answer.
  std::chrono::milliseconds call_limit{60'000};
  // Memory of the interpreter (RLIMIT_DATA); 0: as much as there is.
  uint64_t memory_bytes_max = 0;
  // Of all arrays that one call of kKeep returns.
  uint64_t kept_bytes_max = 0;
};

// True once what waits for an interpreter is to end.
using StopCheck = std::function<bool()>;

// Two tensors, row-major and little-endian. Functions of kMsit get them flat,
// others with their shapes.
struct TensorPairBytes {
  std::string_view golden;
  DType golden_dtype = DType::kUnspecified;
  std::string_view target;
  DType target_dtype = DType::kUnspecified;
  std::vector<int64_t> golden_shape = {};
  std::vector<int64_t> target_shape = {};
};

// What a function returned for a pair.
struct PairAnswer {
  bool has_value = false;
  double value = 0;  // Any double.
  std::string text;  // UTF-8 on one line, at most kAnswerTextBytesMax.
  // The value as Python writes it; see FunctionKind.
  std::string shown;
};
inline constexpr size_t kAnswerTextBytesMax = 1024;

// An array that a function of kKeep returned, row-major and little-endian. Its
// bytes are those of dtype and shape.
struct KeptArray {
  std::string name;  // IsKeptName.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  std::string bytes;
};
inline constexpr size_t kKeptArraysMax = 64;

// True for 1 to 64 letters, digits, `_`, `.` and `-` of ASCII.
bool IsKeptName(std::string_view name);

// What a function of kKeep returned.
struct KeepAnswer {
  std::vector<KeptArray> arrays;
  // Why it returned nothing that can be kept; empty if it did not fail.
  std::string problem;
};

// Returns foreign text as an answer may have it: Printable, and not too long.
std::string AnswerText(std::string_view text);

// A Python interpreter that calls one function. It is a child in a process
// group of its own; the destructor kills the group. It can write to stderr
// only, and its stdin is empty. Its answers are foreign: they are checked,
// bounded, and waited for no longer than the limits. Thread-compatible.
//
// Messages, all little-endian:
// - Request: u64 bytes of golden, u64 bytes of target, two dtype names of 16
//   bytes, padded with zeros, u32 bytes of the shapes; then the shapes, as
//   `2,3` with a NUL between them, and the bytes of both tensors.
// - Answer: "mpr1", u32 kind, u32 bytes of text, f64 value; then the text. The
//   first answer comes without a request, once the function has been tried.
//   Of msit's functions a line with the value is before the text.
// - Request of kKeep: u64 bytes of the tensor, u32 bytes of its place, its
//   dtype name; then the place, which is texts with a NUL between them, and the
//   bytes. Its answer is one without a value and with a text, or one of kind 4:
//   then u32 arrays; for each its name (64 bytes), its dtype name, u32
//   dimensions, u64 bytes and the u64 dimensions; then the bytes of all.
class Interpreter {
 public:
  // Errors: INVALID_ARGUMENT, with the reason, if the function cannot be used;
  // FAILED_PRECONDITION if the interpreter cannot; those of Measure.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Start(
      const InterpreterOptions& options, StopCheck is_stopped);

  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Measures one pair. If the function raises, the answer has no value. After
  // an error the interpreter is of no more use.
  //
  // Errors: UNAVAILABLE if the process ended; DEADLINE_EXCEEDED if its time is
  // up; DATA_LOSS if its answer is malformed; CANCELLED by `is_stopped`.
  absl::StatusOr<PairAnswer> Measure(const TensorPairBytes& pair);

  // Asks a function of kKeep what to keep of a tensor. `key` is without the
  // run, and has no NUL. Errors as of Measure.
  absl::StatusOr<KeepAnswer> Keep(const TensorKey& key, DType dtype,
                                  const std::vector<int64_t>& shape,
                                  std::string_view bytes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Reply;

  Interpreter(const InterpreterOptions& options, StopCheck is_stopped)
      : options_(options), is_stopped_(std::move(is_stopped)) {}

  absl::Status Spawn();
  // Sets the deadline of what follows to `limit` from now.
  void SetLimit(std::chrono::milliseconds limit);
  absl::StatusOr<Reply> ReadReply();
  absl::Status ReadArrays(std::vector<KeptArray>& out);
  // Reads all of an array but its bytes. Returns how many these are: `left` at
  // most.
  absl::StatusOr<uint64_t> ReadArrayHead(KeptArray& out, uint64_t left);
  absl::Status Send(std::string_view bytes);
  absl::Status Receive(char* out, size_t size);
  // Waits until the socket is ready for `events`.
  absl::Status Await(short events);
  // Returns how the process ended, once its socket is closed. Kills it if it
  // still runs.
  absl::Status Ended();
  void Kill();

  const InterpreterOptions options_;
  const StopCheck is_stopped_;
  pid_t pid_ = -1;
  UniqueFd socket_;
  std::chrono::milliseconds limit_{0};
  Clock::time_point deadline_;
};

}  // namespace msitd::ask
