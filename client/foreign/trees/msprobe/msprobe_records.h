// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <memory>
#include <string>
#include <string_view>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/formats/byte_source.h"
#include "client/foreign/trees/json/json_reader.h"
#include "client/foreign/trees/json/json_value.h"

namespace msitd::trees {

// Reads the records of one dump.json or debug.json in order, with one record in
// memory at a time. Thread-compatible.
class MsprobeRecords {
 public:
  explicit MsprobeRecords(std::unique_ptr<formats::FileSource> file)
      : file_(std::move(file)), reader_(*file_) {}

  // Moves to the next record. Returns false after the last one.
  absl::StatusOr<bool> Next();

  // The name of the record.
  const std::string& name() const { return name_; }

  // Reads the record that Next found. `is_broken` is set if the file cannot be
  // read further.
  absl::StatusOr<JsonValue> Read(bool* is_broken);

  // Returns true if the text before the records states that their order is not
  // the order of execution. Only msitd writes this.
  bool IsUnordered();

  // The task of the configuration, such as `statistics` or `tensor`; empty
  // if the text before the records does not specify it. Valid after Next.
  const std::string& task() const { return task_; }

 private:
  static constexpr int kDepthOfRecords = 2;

  absl::Status FindData();
  // Keeps a member that precedes the records. `token` is its value.
  void KeepMember(std::string_view key, JsonToken token);

  const std::unique_ptr<formats::FileSource> file_;
  JsonReader reader_;
  bool is_in_data_ = false;
  bool is_unordered_ = false;
  std::string task_;
  std::string name_;
};

}  // namespace msitd::trees
