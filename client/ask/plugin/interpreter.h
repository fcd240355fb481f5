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
  kMetric,  // A function of a pair: returns a value, or a value and a text.
  // The same with the interface of msit: two parameters, and a pair of a value
  // and a text as the result. Answers then have `shown`. A value that is a text
  // is not a number.
  kMsitMetric,
  kKeep,  // A function of a tensor and its key: returns what is kept of it.
};

// The program and the limits of an interpreter.
struct InterpreterOptions {
  std::string python;    // A program, searched for as a shell does.
  std::string file;      // The plug-in.
  std::string function;  // The name of the function in it.
  std::string
      arrays;  // The type of the function's arguments: "numpy" or "torch".
  FunctionKind kind = FunctionKind::kMetric;
  // Time to load the plug-in and test the function. A function of kKeep is not
  // tested.
  std::chrono::milliseconds start_limit{120'000};
  // Time for one call, from its first byte to the answer.
  std::chrono::milliseconds call_limit{60'000};
  // Memory of the interpreter (RLIMIT_DATA). 0: no limit.
  uint64_t memory_bytes_max = 0;
  // The limit for all arrays that one call of kKeep returns.
  uint64_t kept_bytes_max = 0;
};

// Returns true once waiting for an interpreter is to end.
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

// The result of a function for a pair.
struct PairAnswer {
  bool has_value = false;
  double value = 0;  // Any double.
  std::string text;  // UTF-8 on one line, at most kAnswerTextBytesMax.
  // The value as Python writes it; see FunctionKind.
  std::string shown;
};
inline constexpr size_t kAnswerTextBytesMax = 1024;

// An array that a function of kKeep returned, row-major and little-endian. The
// size of `bytes` matches dtype and shape.
struct KeptArray {
  std::string name;  // IsKeptName.
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  std::string bytes;
};
inline constexpr size_t kKeptArraysMax = 64;

// Returns true for 1 to 64 ASCII letters, digits, `_`, `.` and `-`.
bool IsKeptName(std::string_view name);

// The result of a function of kKeep.
struct KeepAnswer {
  std::vector<KeptArray> arrays;
  // Why it returned nothing that can be kept; empty on success.
  std::string problem;
};

// Converts untrusted text for an answer: Printable, and limited in length.
std::string AnswerText(std::string_view text);

// A Python interpreter that calls one function. It is a child in its own
// process group, which the destructor kills. It can write only to stderr, and
// its stdin is empty. Its answers are untrusted: they are validated and
// bounded, and waiting for them is limited in time. Thread-compatible.
//
// Elements of a type that numpy does not have are converted to float32,
// complex32 to complex64. Sizes and dtype names are those after conversion.
//
// Messages, all little-endian:
// - Request: u64 bytes of golden, u64 bytes of target, two dtype names of 16
//   bytes, padded with zeros, and u32 bytes of the shapes. The shapes follow,
//   as `2,3` with a NUL between them, then the bytes of both tensors.
// - Answer: "mpr1", u32 kind, u32 bytes of text, f64 value, then the text. The
//   first answer is sent without a request, after the function has been tried.
//   For functions of msit, a line with the value precedes the text.
// - Request of kKeep: u64 bytes of the tensor, u32 bytes of its place, its
//   dtype name, the place, which consists of texts separated by NUL, and the
//   bytes. The answer has either a text and no value, or kind 4 and u32 arrays.
//   For each array it has its name (64 bytes), its dtype name, u32 dimensions,
//   u64 bytes and the u64 dimensions. The bytes of all arrays follow.
class Interpreter {
 public:
  // Errors: INVALID_ARGUMENT, with the reason, if the function cannot be used;
  // FAILED_PRECONDITION if the interpreter cannot; those of Measure.
  static absl::StatusOr<std::unique_ptr<Interpreter>> Start(
      const InterpreterOptions& options, StopCheck is_stopped);

  ~Interpreter();
  Interpreter(const Interpreter&) = delete;
  Interpreter& operator=(const Interpreter&) = delete;

  // Measures one pair. If the function raises an exception, the answer has no
  // value. After an error, the interpreter must not be used again.
  //
  // Errors: UNAVAILABLE if the process ended; DEADLINE_EXCEEDED if the time
  // limit was reached; DATA_LOSS if the answer is malformed; CANCELLED by
  // `is_stopped`.
  absl::StatusOr<PairAnswer> Measure(const TensorPairBytes& pair);

  // Calls a function of kKeep for a tensor. `key` has no run and contains no
  // NUL. Errors as for Measure.
  absl::StatusOr<KeepAnswer> Keep(const TensorKey& key, DType dtype,
                                  const std::vector<int64_t>& shape,
                                  std::string_view bytes);

 private:
  using Clock = std::chrono::steady_clock;
  struct Reply;

  Interpreter(const InterpreterOptions& options, StopCheck is_stopped)
      : options_(options), is_stopped_(std::move(is_stopped)) {}

  absl::Status Spawn();
  // Sets the deadline of the following operations to `limit` from now.
  void SetLimit(std::chrono::milliseconds limit);
  absl::StatusOr<Reply> ReadReply();
  absl::Status ReadArrays(std::vector<KeptArray>& out);
  // Reads everything except the bytes of an array. Returns the number of bytes,
  // at most `left`.
  absl::StatusOr<uint64_t> ReadArrayHead(KeptArray& out, uint64_t left);
  absl::Status Send(std::string_view bytes);
  absl::Status SendElements(DType dtype, std::string_view bytes);
  absl::Status Receive(char* out, size_t size);
  // Waits until the socket is ready for `events`.
  absl::Status Await(short events);
  // Returns how the process ended, after its socket was closed. Kills it if it
  // is still running.
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
