// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_said.h"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/trees/json/json_reader.h"
#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/msprobe/msprobe_record.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

using trees::JsonReader;
using trees::JsonToken;
using trees::JsonValue;

// The members of a forward or backward record that are not marks.
constexpr std::string_view kParts[] = {"input_args", "input_kwargs", "input",
                                       "output", "parameters"};
constexpr std::string_view kFile = "data_name";

// Omits the names of files unless `keeps_files`.
void Write(const JsonValue& value, JsonWriter& out, bool keeps_files = false) {
  switch (value.type) {
    case JsonToken::kObjectBegin:
      out.BeginObject();
      for (size_t i = 0; i < value.keys.size(); ++i) {
        if (value.keys[i] == kFile && !keeps_files) continue;
        Write(value.items[i], out.Key(value.keys[i]), keeps_files);
      }
      out.EndObject();
      return;
    case JsonToken::kArrayBegin:
      out.BeginList();
      for (const JsonValue& item : value.items) {
        Write(item, out, keeps_files);
      }
      out.EndList();
      return;
    case JsonToken::kString:
      out.Text(value.text);
      return;
    case JsonToken::kNumber:
      out.PythonNumber(value.text);
      return;
    case JsonToken::kTrue:
    case JsonToken::kFalse:
      out.Bool(value.type == JsonToken::kTrue);
      return;
    default:
      out.Null();
  }
}

std::string TextOf(const JsonValue& value) {
  JsonWriter out(0);
  Write(value, out, /*keeps_files=*/true);
  return out.Take();
}

// Parses the text that TextOf returned.
JsonValue ValueOf(const std::string& json) {
  const formats::MemorySource bytes(json);
  JsonReader reader(bytes);
  return trees::ReadJsonValue(reader).value_or(JsonValue());
}

// Passes each member of an object that begins at the next token to `take`.
template <typename F>
absl::Status ForEachMember(JsonReader& reader, F take) {
  MSITD_ASSIGN_OR_RETURN(JsonToken token, reader.Next());
  if (token != JsonToken::kObjectBegin) {
    return absl::InvalidArgumentError("it is not an object");
  }
  for (;;) {
    MSITD_ASSIGN_OR_RETURN(token, reader.Next());
    if (token == JsonToken::kObjectEnd) return absl::OkStatus();
    const std::string key = reader.text();
    MSITD_RETURN_IF_ERROR(take(key));
  }
}

class DumpTaker {
 public:
  DumpTaker(bool is_dump, MsprobeDump& dump) : is_dump_(is_dump), dump_(dump) {
    for (MsprobeRow& row : dump.rows) {
      entries_.insert(row.name.entry);
      rows_.emplace(MsprobeFileName(row.name), &row);
    }
  }

  absl::Status Take(JsonReader& reader) {
    return ForEachMember(reader, [&](const std::string& key) -> absl::Status {
      if (key == "data") return TakeData(reader);
      MSITD_ASSIGN_OR_RETURN(const JsonValue value,
                             trees::ReadJsonValue(reader));
      if (is_dump_ && key == "task") dump_.said.task = value.text;
      if (is_dump_ && key == "level") dump_.said.level = value.text;
      return absl::OkStatus();
    });
  }

 private:
  absl::Status TakeData(JsonReader& reader) {
    return ForEachMember(reader, [&](const std::string& entry) -> absl::Status {
      MSITD_ASSIGN_OR_RETURN(const JsonValue record,
                             trees::ReadJsonValue(reader));
      TakeRecord(entry, record);
      return absl::OkStatus();
    });
  }

  void TakeRecord(const std::string& entry, const JsonValue& record) {
    for (const trees::MsprobeLeaf& leaf :
         trees::LeavesOfMsprobe(entry, record).leaves) {
      const auto key = KeyOfMsprobe(leaf.name);
      const auto ours = key ? MsprobeNameOf(*key) : std::nullopt;
      const auto row = ours ? rows_.find(MsprobeFileName(*ours)) : rows_.end();
      if (row != rows_.end()) row->second->said = TextOf(*leaf.json);
    }
    const auto kind = names::MsprobeEntryOf(entry);
    const bool has_parts = kind == names::MsprobeEntry::kForward ||
                           kind == names::MsprobeEntry::kBackward;
    if (!has_parts || !entries_.contains(entry)) return;
    for (size_t i = 0; i < record.keys.size(); ++i) {
      const bool is_part = std::find(std::begin(kParts), std::end(kParts),
                                     record.keys[i]) != std::end(kParts);
      if (is_part || record.keys[i] == kFile) continue;
      dump_.said.marks[entry].emplace_back(record.keys[i],
                                           TextOf(record.items[i]));
    }
  }

  const bool is_dump_;
  MsprobeDump& dump_;
  std::set<std::string_view> entries_;
  std::map<std::string, MsprobeRow*> rows_;
};

std::set<std::string> EntriesOf(const MsprobeDump& dump) {
  std::set<std::string> out;
  for (const MsprobeRow& row : dump.rows) out.insert(row.name.entry);
  return out;
}

// Supports both releases: a list of names and one of frames, or frames under a
// name.
absl::Status TakeStacks(JsonReader& reader, MsprobeDump& dump) {
  const std::set<std::string> entries = EntriesOf(dump);
  return ForEachMember(reader, [&](const std::string& key) -> absl::Status {
    MSITD_ASSIGN_OR_RETURN(const JsonValue value, trees::ReadJsonValue(reader));
    if (entries.contains(key)) dump.said.frames[key] = TextOf(value);
    const bool is_group = value.items.size() == 2 && value.items[0].IsArray();
    if (!is_group) return absl::OkStatus();
    const std::string frames = TextOf(value.items[1]);
    for (const JsonValue& name : value.items[0].items) {
      if (entries.contains(name.text)) dump.said.frames[name.text] = frames;
    }
    return absl::OkStatus();
  });
}

// Returns the parent in `"parent"`, or in `["parent", step]` of Megatron.
std::string ParentIn(const JsonValue& value) {
  const bool has_step = value.IsArray() && !value.items.empty();
  return has_step ? value.items[0].text : value.text;
}

absl::Status TakeTree(JsonReader& reader, MsprobeDump& dump) {
  std::vector<std::pair<std::string, JsonValue>> all;
  std::map<std::string, std::string> parents;
  const absl::Status read =
      ForEachMember(reader, [&](const std::string& key) -> absl::Status {
        MSITD_ASSIGN_OR_RETURN(JsonValue value, trees::ReadJsonValue(reader));
        parents[key] = ParentIn(value);
        all.emplace_back(key, std::move(value));
        return absl::OkStatus();
      });
  std::set<std::string> wanted;
  for (std::string name : EntriesOf(dump)) {
    while (!name.empty() && wanted.insert(name).second) name = parents[name];
  }
  for (const auto& [name, value] : all) {
    // A number is the steps of Megatron, not an entry.
    if (value.IsNumber() || wanted.contains(name)) {
      dump.said.tree.emplace_back(name, TextOf(value));
    }
  }
  return read;
}

}  // namespace

absl::Status TakeMsprobeDocument(std::string_view name, std::string text,
                                 MsprobeDump& dump) {
  const formats::MemorySource bytes(std::move(text));
  JsonReader reader(bytes);
  if (name == names::kMsprobeStack) return TakeStacks(reader, dump);
  if (name == names::kMsprobeConstruct) return TakeTree(reader, dump);
  return DumpTaker(name == names::kMsprobeDump, dump).Take(reader);
}

void WriteAsSaid(const std::string& json, JsonWriter& out) {
  Write(ValueOf(json), out);
}

void WriteLeafAsSaid(const std::string& json, std::string_view file,
                     JsonWriter& out) {
  const JsonValue tensor = ValueOf(json);
  if (!tensor.IsObject()) return Write(tensor, out);
  out.BeginObject();
  bool is_named = file.empty();
  for (size_t i = 0; i < tensor.keys.size(); ++i) {
    if (tensor.keys[i] != kFile) {
      Write(tensor.items[i], out.Key(tensor.keys[i]));
    } else if (!std::exchange(is_named, true)) {
      out.Field(kFile, file);
    }
  }
  if (!is_named) out.Field(kFile, file);
  out.EndObject();
}

}  // namespace msitd::write
