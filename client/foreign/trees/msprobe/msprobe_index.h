// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/msprobe/msprobe_stacks.h"

namespace msitd::trees {

// The texts in the dump of one rank and step that a run of msitd does not keep,
// by name. Reports in the format of msprobe contain them: the statistics that
// the tool recorded of a tensor that also has a file, the name of that file,
// and stacks with their source lines. Thread-compatible.
class MsprobeIndex {
 public:
  // Which file of the folder has the records.
  enum class Source : uint8_t { kDump, kDebug };

  // Returns dump.json or debug.json.
  static std::string_view FileOf(Source source) {
    return source == Source::kDump ? names::kMsprobeDump : names::kMsprobeDebug;
  }

  struct Leaf {
    // As TreeEntry::text of statistics; empty for values.
    std::string statistics;
    // The name of the file, with its extension; empty if there is none.
    std::string file;
  };

  // Reads the folder of a rank. Records that cannot be read are left out,
  // because the import reports them. Errors: NOT_FOUND if the file does not
  // exist; INVALID_ARGUMENT if its beginning is not that of a dump;
  // RESOURCE_EXHAUSTED beyond kMsprobeRecordsMax.
  static absl::StatusOr<MsprobeIndex> Read(const std::string& folder,
                                           Source source);

  // `statistics`, `tensor` or another task; empty for early releases, which
  // wrote none.
  const std::string& task() const { return task_; }

  // True if a tensor or a value has a checksum that was recorded.
  bool has_checksums() const { return has_checksums_; }

  // True if the folder has a stack.json, even an empty one.
  bool has_stacks() const { return has_stacks_; }

  // The number of leaves.
  size_t size() const { return leaves_.size(); }

  // Returns null if there is no such leaf.
  const Leaf* Find(const names::MsprobeKey& key) const;

  // Returns the frames of an entry as Python prints a list of them; empty if
  // there are none.
  std::string_view StackOf(std::string_view entry) const {
    return stacks_.Find(entry);
  }

 private:
  MsprobeIndex() : stacks_(MsprobeStacks::Form::kPythonList) {}

  absl::Status ReadRecords(const std::string& path);
  void Add(std::string_view entry, const JsonValue& record);

  std::string task_;
  bool has_checksums_ = false;
  bool has_stacks_ = false;
  std::unordered_map<std::string, Leaf> leaves_;
  MsprobeStacks stacks_;
};

}  // namespace msitd::trees
