// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/status.h"
#include "client/foreign/names/msprobe_names.h"
#include "msitd/v1/tensor_service.pb.h"
#include "protos/base/dtype.h"
#include "protos/base/record_kind.h"

// Creates dump.json, stack.json and construct.json of msprobe from records.
namespace msitd::write {

// The value of `md5` for a tensor.
struct MsprobeChecksum {
  std::string text;
  // Written in place of the statistics.
  bool is_xor = false;
};

// The contents of these files for one record.
struct MsprobeRow {
  names::MsprobeName name;
  RecordKind kind = RecordKind::kTensor;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  bool requires_grad = false;
  // The value, or the statistics.
  std::string text;
  v1::Summary summary;
  std::string file;  // The file of a tensor that has one, with its extension.
  // For a tensor, if a checksum is requested.
  std::optional<MsprobeChecksum> checksum;
  // The JSON that a dump of msprobe had for it; empty if there is none.
  std::string said;
  std::string resource_name;
  int64_t sequence = 0;
  size_t stack = 0;  // An index into MsprobeDump::stacks.
};

// The contents of msprobe's documents that are in no record, as JSON.
struct MsprobeSaid {
  std::string task;
  std::string level;
  // The members of each entry that are not parts, such as `is_nan`.
  std::map<std::string, std::vector<std::pair<std::string, std::string>>,
           std::less<>>
      marks;
  // The list of the frames of each entry.
  std::map<std::string, std::string, std::less<>> frames;
  // The lines of construct.json for the entries, and for the modules that
  // contain them.
  std::vector<std::pair<std::string, std::string>> tree;
};

// The records of one rank and token.
struct MsprobeDump {
  std::vector<MsprobeRow> rows;
  // Each stack once, one frame per line. The first one is empty.
  std::vector<std::string> stacks = {""};
  // The folder of the tensors; empty if none has a file.
  std::string data_folder;
  MsprobeSaid said = {};
  // NaN and the infinities are texts.
  bool is_legal_json = false;
  // Sequences of the rows are the order of execution.
  bool has_known_order = true;
};

using JsonSink = absl::FunctionRef<absl::Status(std::string_view)>;

// One of the two files with tensors and values.
enum class MsprobeFile : uint8_t { kDump, kDebug };

// Returns true if there are records for that file.
bool HasRecordsFor(const MsprobeDump& dump, MsprobeFile file);

// Writes the file entry by entry, in the order in which they ended. Calls
// `doubled` with each row that is omitted because another row has its place.
absl::Status WriteMsprobeDump(
    const MsprobeDump& dump, MsprobeFile file, JsonSink sink,
    absl::FunctionRef<void(const MsprobeRow&)> doubled);

// Returns stack.json: forward entries by their stack.
std::string MsprobeStackJson(const MsprobeDump& dump);

// Returns construct.json: each entry in the documents, and each module, with
// the module that contains it.
std::string MsprobeConstructJson(const MsprobeDump& dump);

}  // namespace msitd::write
