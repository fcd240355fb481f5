// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "client/ask/plugin/plugin.h"
#include "client/ask/query/byte_sink.h"
#include "client/ask/query/connection.h"
#include "client/ask/query/outcome.h"
#include "client/foreign/fill/tensor_deriver.h"

// A function of the user that determines what a run keeps of tensors.
namespace msitd::msitctl {

struct KeepFlags {
  // A level, or FILE.py:FUNCTION.
  std::string keep = "full";
  std::string python = "python3";
  std::string timeout;
  uint64_t tensor_bytes_max = uint64_t{1} << 30;
  uint64_t memory_bytes_max = uint64_t{8} << 30;
};
void AddKeepFlags(CLI::App& verb, KeepFlags& flags);

// Describes the function that selected the tensors of a run. Stored with the
// run as the attachment `keep.json`:
//
//   {"msitd_keep": 1, "function": "norms", "file": "keep.py",
//    "hash": "9ae16a3b...", "text": "def norms(array, where): ..."}
struct KeepRecord {
  std::string function;
  std::string file;
  // The hash of the text; empty if there is no record.
  std::string hash;

  bool is_same(const KeepRecord& other) const {
    return function == other.function && hash == other.hash;
  }
  // Returns a text such as "norms of keep.py (9ae16a3b)".
  std::string ToText() const;
};

// Reads the record; empty if the run has none. A malformed record is treated as
// that of an unknown function.
ask::Outcome ReadKeepRecord(ask::Connection& connection, const std::string& run,
                            KeepRecord& out, ask::ReadLimit limit = {});

// Calls the function in a child process. docs/import.md describes its
// parameters and results.
class KeepFunction final : public fill::TensorDeriver {
 public:
  // A file with more bytes is rejected.
  static constexpr uint64_t kFileBytesMax = uint64_t{1} << 20;

  // Loads the function that --keep names. `is_stopped` ends the wait for it.
  static ask::Outcome Create(const KeepFlags& flags, ask::StopCheck is_stopped,
                             std::unique_ptr<KeepFunction>& out);

  const KeepRecord& record() const { return record_; }
  // Returns the contents of the attachment.
  std::string ToJson() const;

  std::string id() const override;
  uint64_t tensor_bytes_max() const override { return tensor_bytes_max_; }
  absl::StatusOr<std::vector<fill::DerivedTensor>> Derive(
      const TensorKey& key, DType dtype, const std::vector<int64_t>& shape,
      std::string_view bytes) override;

 private:
  KeepFunction(KeepRecord record, std::string text, uint64_t tensor_bytes_max,
               const ask::InterpreterOptions& options,
               ask::StopCheck is_stopped);

  absl::StatusOr<ask::Interpreter*> GetInterpreter();

  const KeepRecord record_;
  const std::string text_;
  const std::string path_;
  const uint64_t tensor_bytes_max_;
  ask::SpareInterpreter interpreter_;
  // The next interpreter is a new one.
  bool has_lost_ = false;
};

inline constexpr char kKeepAttachment[] = "keep.json";

// Returns true if --keep names a function instead of a level.
bool IsKeepFunction(const std::string& keep);

}  // namespace msitd::msitctl
