// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_dump.h"

#include <algorithm>
#include <optional>
#include <set>
#include <utility>

#include "client/foreign/write/msprobe/msprobe_leaf.h"
#include "client/foreign/write/msprobe/msprobe_said.h"
#include "client/foreign/write/msprobe/msprobe_value.h"
#include "client/foreign/write/writer/json_writer.h"
#include "protos/base/order_label.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

using names::MsprobeEntry;
using names::MsprobePart;

constexpr int kIndent = 1;
constexpr std::string_view kModule = "Module.";
// A list that lacks more positions than this is written as a map.
constexpr size_t kGapsMax = 1024;

// A send or receive is an object whose values have no types.
constexpr std::string_view kClassType = "class_type";

// An entry, and its rows in the order in which they were recorded.
struct Entry {
  std::string_view name;
  int64_t end = 0;  // The sequence of its last record.
  std::vector<const MsprobeRow*> rows;
};

MsprobeEntry KindOf(const Entry& entry) {
  return names::MsprobeEntryOf(entry.name).value_or(MsprobeEntry::kDebug);
}

// Returns the entries of `file` in the order in which they ended.
std::vector<Entry> EntriesOf(const MsprobeDump& dump, MsprobeFile file) {
  std::map<std::string_view, Entry> by_name;
  for (const MsprobeRow& row : dump.rows) {
    Entry& entry = by_name[row.name.entry];
    entry.name = row.name.entry;
    entry.end = std::max(entry.end, row.sequence);
    entry.rows.push_back(&row);
  }
  std::vector<Entry> out;
  for (auto& [name, entry] : by_name) {
    std::stable_sort(entry.rows.begin(), entry.rows.end(),
                     [](const MsprobeRow* a, const MsprobeRow* b) {
                       return a->sequence < b->sequence;
                     });
    const bool is_debug = KindOf(entry) == MsprobeEntry::kDebug;
    if (is_debug == (file == MsprobeFile::kDebug)) {
      out.push_back(std::move(entry));
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const Entry& a, const Entry& b) {
    return a.end < b.end;
  });
  return out;
}

// The content of one place of an entry: a row, or further places.
struct EntryNode {
  const MsprobeRow* row = nullptr;
  std::vector<std::pair<std::string, EntryNode>> below;
  std::map<std::string, size_t, std::less<>> numbers;  // Indexes into `below`.

  EntryNode& At(std::string_view key) {
    const auto [found, is_new] =
        numbers.try_emplace(std::string(key), below.size());
    if (is_new) below.emplace_back(std::string(key), EntryNode());
    return below[found->second].second;
  }
};

std::optional<size_t> PositionOf(std::string_view key) {
  if (key.empty() || key.size() > 6) return std::nullopt;
  size_t out = 0;
  for (const char c : key) {
    if (c < '0' || c > '9') return std::nullopt;
    out = out * 10 + static_cast<size_t>(c - '0');
  }
  return out;
}

// Returns the positions of a list, in order; nothing if `place` must be a map.
std::optional<std::vector<const EntryNode*>> ListOf(const EntryNode& place) {
  std::vector<const EntryNode*> out;
  for (const auto& [key, below] : place.below) {
    const auto position = PositionOf(key);
    if (!position || *position > place.below.size() + kGapsMax) {
      return std::nullopt;
    }
    if (*position >= out.size()) out.resize(*position + 1);
    if (out[*position] != nullptr) return std::nullopt;
    out[*position] = &below;
  }
  return out;
}

void WritePlace(const EntryNode& place, JsonWriter& out) {
  if (place.row != nullptr) return WriteMsprobeLeaf(*place.row, out);
  const auto list = ListOf(place);
  if (list.has_value()) {
    out.BeginList();
    for (const EntryNode* item : *list) {
      if (item == nullptr) {
        out.Null();
      } else {
        WritePlace(*item, out);
      }
    }
    out.EndList();
    return;
  }
  const bool is_plain = place.numbers.contains(kClassType);
  out.BeginObject();
  for (const auto& [key, below] : place.below) {
    const bool is_value = below.row != nullptr &&
                          below.row->kind != RecordKind::kTensor &&
                          below.row->kind != RecordKind::kStatistics;
    if (is_plain && is_value) {
      WritePlainValue(*below.row, out.Key(key));
    } else {
      WritePlace(below, out.Key(key));
    }
  }
  out.EndObject();
}

void WriteMap(const EntryNode& place, JsonWriter& out) {
  out.BeginObject();
  for (const auto& [key, below] : place.below) {
    WritePlace(below, out.Key(key));
  }
  out.EndObject();
}

// The places of one part of an entry.
class Parts {
 public:
  explicit Parts(absl::FunctionRef<void(const MsprobeRow&)> doubled)
      : doubled_(doubled) {}

  void Add(const MsprobeRow& row) {
    EntryNode* place = &parts_[row.name.part];
    std::string_view rest = row.name.keys;
    // The name of a parameter may contain dots.
    const bool is_whole =
        row.name.part == MsprobePart::kParameters ||
        (row.name.part == MsprobePart::kWhole &&
         names::MsprobeEntryOf(row.name.entry) == MsprobeEntry::kGradients);
    while (!rest.empty()) {
      // A value has no places below it.
      if (place->row != nullptr) return doubled_(row);
      const size_t dot = is_whole ? rest.npos : rest.find('.');
      place = &place->At(rest.substr(0, dot));
      rest = dot == rest.npos ? std::string_view() : rest.substr(dot + 1);
    }
    if (place->row != nullptr || !place->below.empty()) return doubled_(row);
    place->row = &row;
  }

  const EntryNode& Of(MsprobePart part) { return parts_[part]; }
  bool Has(MsprobePart part) const { return parts_.count(part) != 0; }

 private:
  absl::FunctionRef<void(const MsprobeRow&)> doubled_;
  std::map<MsprobePart, EntryNode> parts_;
};

void WriteForward(std::string_view name, Parts& parts, JsonWriter& out) {
  WritePlace(parts.Of(MsprobePart::kInput), out.Key("input_args"));
  WriteMap(parts.Of(MsprobePart::kKwargs), out.Key("input_kwargs"));
  WritePlace(parts.Of(MsprobePart::kOutput), out.Key("output"));
  if (name.starts_with(kModule) || parts.Has(MsprobePart::kParameters)) {
    WriteMap(parts.Of(MsprobePart::kParameters), out.Key("parameters"));
  }
}

void WriteGradients(Parts& parts, JsonWriter& out) {
  for (const auto& [key, place] : parts.Of(MsprobePart::kWhole).below) {
    out.Key(key).BeginList();
    WritePlace(place, out);
    out.EndList();
  }
}

void WriteEntry(const Entry& entry, const MsprobeSaid& said, JsonWriter& out,
                absl::FunctionRef<void(const MsprobeRow&)> doubled) {
  Parts parts(doubled);
  for (const MsprobeRow* row : entry.rows) parts.Add(*row);
  out.Key(entry.name);
  if (KindOf(entry) == MsprobeEntry::kDebug) {
    return WritePlace(parts.Of(MsprobePart::kWhole), out);
  }
  out.BeginObject();
  if (KindOf(entry) == MsprobeEntry::kForward) {
    WriteForward(entry.name, parts, out);
  } else if (KindOf(entry) == MsprobeEntry::kBackward) {
    WritePlace(parts.Of(MsprobePart::kInput), out.Key("input"));
    WritePlace(parts.Of(MsprobePart::kOutput), out.Key("output"));
  } else {
    WriteGradients(parts, out);
  }
  const auto marks = said.marks.find(entry.name);
  if (marks != said.marks.end()) {
    for (const auto& [key, json] : marks->second) {
      WriteAsSaid(json, out.Key(key));
    }
  }
  out.EndObject();
}

std::string_view LevelOf(const std::vector<Entry>& entries, MsprobeFile file,
                         const MsprobeSaid& said) {
  if (file == MsprobeFile::kDebug) return "debug";
  if (!said.level.empty()) return said.level;
  bool has_modules = false;
  bool has_others = false;
  for (const Entry& entry : entries) {
    (entry.name.starts_with(kModule) ? has_modules : has_others) = true;
  }
  return has_modules && has_others ? "mix" : has_modules ? "L0" : "L1";
}

std::string_view TaskOf(const MsprobeDump& dump) {
  if (!dump.data_folder.empty()) return "tensor";
  const std::string_view said = dump.said.task;
  // Without files of tensors, the task is not `tensor`.
  if (said.empty() || said == "tensor") return "statistics";
  return said;
}

// Returns the list of the frames of an entry, as JSON; empty if none are known.
std::string FramesOf(const Entry& entry, const MsprobeDump& dump) {
  const auto said = dump.said.frames.find(entry.name);
  if (said != dump.said.frames.end()) return said->second;
  const size_t stack = entry.rows.front()->stack;
  if (stack == 0 || KindOf(entry) != MsprobeEntry::kForward) return "";
  JsonWriter out(0);
  out.BeginList();
  std::string_view rest = dump.stacks[stack];
  while (!rest.empty()) {
    const size_t end = std::min(rest.find('\n'), rest.size());
    const std::string_view frame = rest.substr(0, end);
    rest.remove_prefix(std::min(end + 1, rest.size()));
    // `file:line function`
    const size_t blank = frame.rfind(' ');
    const size_t colon = frame.rfind(':', blank);
    if (blank == frame.npos || colon == frame.npos) {
      out.Text(frame);
    } else {
      out.Text("File " + std::string(frame.substr(0, colon)) + ", line " +
               std::string(frame.substr(colon + 1, blank - colon - 1)) +
               ", in " + std::string(frame.substr(blank + 1)) + ", \n ");
    }
  }
  return out.EndList().Take();
}

// For `Module.layers.0.Linear.forward.1`, the path is `layers.0`.
struct ModuleEntry {
  std::string_view path;
  std::string_view tail;  // `forward.1`
};

std::optional<ModuleEntry> ModuleOf(std::string_view name) {
  if (!name.starts_with(kModule)) return std::nullopt;
  const size_t count = name.rfind('.');
  const size_t word = name.rfind('.', count - 1);
  const size_t type = name.rfind('.', word - 1);
  if (type == name.npos || type < kModule.size()) return std::nullopt;
  return ModuleEntry{name.substr(kModule.size(), type - kModule.size()),
                     name.substr(word + 1)};
}

}  // namespace

bool HasRecordsFor(const MsprobeDump& dump, MsprobeFile file) {
  return std::any_of(
      dump.rows.begin(), dump.rows.end(), [file](const MsprobeRow& row) {
        const auto kind = names::MsprobeEntryOf(row.name.entry);
        return (kind == MsprobeEntry::kDebug) == (file == MsprobeFile::kDebug);
      });
}

absl::Status WriteMsprobeDump(
    const MsprobeDump& dump, MsprobeFile file, JsonSink sink,
    absl::FunctionRef<void(const MsprobeRow&)> doubled) {
  const std::vector<Entry> entries = EntriesOf(dump, file);
  JsonWriter out(kIndent, dump.is_legal_json);
  const bool has_files = !dump.data_folder.empty();
  out.BeginObject().Field("task", TaskOf(dump));
  out.Field("level", LevelOf(entries, file, dump.said));
  out.Field("framework", "pytorch");
  if (has_files) {
    out.Field("dump_data_dir", dump.data_folder);
  } else {
    out.Key("dump_data_dir").Null();
  }
  if (!dump.has_known_order) out.Field(names::kMsprobeOrder, kUnknownOrder);
  out.Key("data").BeginObject();
  for (const Entry& entry : entries) {
    WriteEntry(entry, dump.said, out, doubled);
    MSITD_RETURN_IF_ERROR(sink(out.Take()));
  }
  out.EndObject().EndObject();
  return sink(out.Take());
}

std::string MsprobeStackJson(const MsprobeDump& dump) {
  // By frames, in the order of the first entry that has them.
  std::map<std::string, size_t> groups;
  std::vector<std::pair<std::string, std::vector<std::string_view>>> names;
  for (const Entry& entry : EntriesOf(dump, MsprobeFile::kDump)) {
    std::string frames = FramesOf(entry, dump);
    if (frames.empty()) continue;
    const auto [group, is_new] = groups.try_emplace(frames, names.size());
    if (is_new) names.push_back({std::move(frames), {}});
    names[group->second].second.push_back(entry.name);
  }
  JsonWriter out(kIndent);
  out.BeginObject();
  for (size_t i = 0; i < names.size(); ++i) {
    out.Key(std::to_string(i)).BeginList().BeginList();
    for (const std::string_view name : names[i].second) out.Text(name);
    out.EndList();
    WriteAsSaid(names[i].first, out);
    out.EndList();
  }
  return out.EndObject().Take();
}

std::string MsprobeConstructJson(const MsprobeDump& dump) {
  const std::vector<Entry> entries = EntriesOf(dump, MsprobeFile::kDump);
  // By path and call, such as `layers.0 forward.1`.
  std::map<std::pair<std::string_view, std::string_view>, std::string_view>
      modules;
  for (const Entry& entry : entries) {
    const auto module = ModuleOf(entry.name);
    if (module) modules[{module->path, module->tail}] = entry.name;
  }
  JsonWriter out(kIndent);
  out.BeginObject();
  std::set<std::string_view> said;
  for (const auto& [name, json] : dump.said.tree) {
    said.insert(name);
    WriteAsSaid(json, out.Key(name));
  }
  for (const Entry& entry : entries) {
    if (said.contains(entry.name)) continue;
    const auto module = ModuleOf(entry.name);
    if (!module || KindOf(entry) == MsprobeEntry::kGradients) continue;
    std::string_view parent;
    std::string_view path = module->path;
    while (parent.empty() && path.find('.') != path.npos) {
      path = path.substr(0, path.rfind('.'));
      const auto found = modules.find({path, module->tail});
      if (found != modules.end()) parent = found->second;
    }
    out.Key(entry.name);
    if (parent.empty()) {
      out.Null();
    } else {
      out.Text(parent);
    }
  }
  return out.EndObject().Take();
}

}  // namespace msitd::write
