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

// dump.json, stack.json and construct.json of msprobe, made of records.
namespace msitd::write {

// What `md5` says of a tensor.
struct MsprobeChecksum {
  std::string text;
  // It stands in place of the statistics.
  bool is_xor = false;
};

// What these files say of one record.
struct MsprobeRow {
  names::MsprobeName name;
  RecordKind kind = RecordKind::kTensor;
  DType dtype = DType::kUnspecified;
  std::vector<int64_t> shape;
  bool requires_grad = false;
  // The value, or the statistics.
  std::string text;
  v1::Summary summary;
  std::string file;  // Of a tensor that has one, with its extension.
  // Of a tensor for which one is asked.
  std::optional<MsprobeChecksum> checksum;
  // What a dump of msprobe said of it, as JSON; empty if there is none.
  std::string said;
  std::string resource_name;
  int64_t sequence = 0;
  size_t stack = 0;  // A number of MsprobeDump::stacks.
};

// What documents of msprobe say that no record has; all of it as JSON.
struct MsprobeSaid {
  std::string task;
  std::string level;
  // Of an entry: members that are no parts, such as `is_nan`.
  std::map<std::string, std::vector<std::pair<std::string, std::string>>,
           std::less<>>
      marks;
  // Of an entry: the list of its frames.
  std::map<std::string, std::string, std::less<>> frames;
  // What construct.json has of the entries, and of those that hold them.
  std::vector<std::pair<std::string, std::string>> tree;
};

// The records of one rank and token.
struct MsprobeDump {
  std::vector<MsprobeRow> rows;
  // Each stack once, a frame a line; the first one is empty.
  std::vector<std::string> stacks = {""};
  // Folder of the tensors; empty if none has a file.
  std::string data_folder;
  MsprobeSaid said = {};
  // NaN and the infinities are texts.
  bool is_legal_json = false;
  // Sequences of the rows are the order of execution.
  bool has_known_order = true;
};

using JsonSink = absl::FunctionRef<absl::Status(std::string_view)>;

// Which of the two files that have tensors and values.
enum class MsprobeFile : uint8_t { kDump, kDebug };

// True if there are records for that file.
bool HasRecordsFor(const MsprobeDump& dump, MsprobeFile file);

// Writes the file entry by entry, in the order in which they ended. `doubled`
// gets each row that has the place of another one and is left out.
absl::Status WriteMsprobeDump(
    const MsprobeDump& dump, MsprobeFile file, JsonSink sink,
    absl::FunctionRef<void(const MsprobeRow&)> doubled);

// Returns stack.json: forward entries by their stack.
std::string MsprobeStackJson(const MsprobeDump& dump);

// Returns construct.json: each entry that the documents tell of, and each
// module, with what holds it.
std::string MsprobeConstructJson(const MsprobeDump& dump);

}  // namespace msitd::write
