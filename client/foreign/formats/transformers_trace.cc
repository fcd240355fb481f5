// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/transformers_trace.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <system_error>
#include <utility>
#include <vector>

#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/json_walk.h"
#include "client/foreign/formats/safetensors_file.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr std::string_view kModuleKey = "module_path";
constexpr std::string_view kInputsKey = "inputs";
constexpr std::string_view kOutputsKey = "outputs";
constexpr std::string_view kShapePrefix = "torch.Size([";
constexpr std::string_view kTypePrefix = "torch.";
constexpr std::string_view kStatistics[] = {"mean", "min", "max"};

// A tensor of the trace, as its texts.
struct Row {
  std::string module;
  int64_t call = 0;
  Io io = Io::kUnspecified;
  std::string index;
  // True if `index` has only its first components.
  bool is_index_cut = false;
  std::string shape;
  std::string type;
  std::string file;  // Empty if the values are printed or absent.
  std::map<std::string, std::string> statistics;  // Of kStatistics.
};

uint64_t HeldBytes(const Row& row) {
  uint64_t out = sizeof(Row) + row.module.size() + row.index.size() +
                 row.shape.size() + row.type.size() + row.file.size();
  for (const auto& [name, text] : row.statistics) {
    out += name.size() + text.size();
  }
  return out;
}

// Modules are in one another, with two levels of JSON for each.
constexpr size_t kTraceDepthMax = size_t{16} * kNestingMax;

struct TraceLevel : JsonLevel {
  std::string module;  // The path, if this is a module.
  int64_t call = 0;
  std::optional<Row> row;  // Set if this may be a tensor.
};

// Collects the tensors of a file.
class TraceHandler final : public JsonWalk<TraceLevel> {
 public:
  std::vector<Row> rows;

  TraceHandler() : JsonWalk("trace", kTraceDepthMax) {}

  bool CloseObject() override {
    TraceLevel level = Close();
    if (!level.row.has_value() || level.row->shape.empty() ||
        level.row->type.empty()) {
      return true;
    }
    return AddRow(*std::move(level.row));
  }
  bool Key(std::string& key) override {
    levels().back().key = key.substr(0, kTraceTextBytesMax);
    return true;
  }
  bool Text(std::string& text) override {
    Count();
    if (levels().empty() || !levels().back().is_object) return true;
    TraceLevel& level = levels().back();
    if (level.key == kModuleKey) {
      if (text.empty() || text.size() > kTraceTextBytesMax) {
        return Stop(absl::InvalidArgumentError("trace: a module has no path"));
      }
      level.module = std::move(text);
      const auto [calls, is_new] = calls_.try_emplace(level.module, 0);
      level.call = calls->second++;
      return !is_new || Hold(level.module.size());
    }
    if (text.size() > kTraceTextBytesMax) return true;
    SetField(level, std::move(text));
    return true;
  }

 private:
  static void SetField(TraceLevel& level, std::string text) {
    if (!level.row.has_value()) level.row.emplace();
    Row& row = *level.row;
    if (level.key == "shape")
      row.shape = std::move(text);
    else if (level.key == "dtype")
      row.type = std::move(text);
    else if (level.key == "value")
      row.file = std::move(text);
    else if (std::ranges::find(kStatistics, level.key) != std::end(kStatistics))
      row.statistics[level.key] = std::move(text);
  }

  // Finds the module and the side of the tensor whose object was just closed.
  bool AddRow(Row row) {
    size_t module = levels().size();
    while (module > 0 && levels()[module - 1].module.empty()) --module;
    // A dict of the model that happens to have these keys.
    if (module == 0) return true;
    const TraceLevel& owner = levels()[module - 1];
    row.module = owner.module;
    row.call = owner.call;
    row.io = owner.key == kInputsKey    ? Io::kInput
             : owner.key == kOutputsKey ? Io::kOutput
                                        : Io::kUnspecified;
    if (!IsValid(row.io)) return true;
    size_t first = module;
    // {"args": [...], "kwargs": {...}}
    const bool has_sides =
        row.io == Io::kInput && first < levels().size() &&
        (levels()[first].key == "args" || levels()[first].key == "kwargs");
    if (has_sides) ++first;
    SetIndex(std::span<const TraceLevel>(levels()).subspan(first), row);
    if (rows.size() == kTensorsMax) {
      return Stop(
          absl::ResourceExhaustedError("trace: it has too many tensors"));
    }
    const bool is_held = Hold(HeldBytes(row));
    rows.push_back(std::move(row));
    return is_held;
  }

  // Joins the components of `path` until the longest index of a tensor.
  static void SetIndex(std::span<const TraceLevel> path, Row& row) {
    for (const TraceLevel& level : path) {
      const std::string number = std::to_string(level.index);
      const std::string& component = level.is_object ? level.key : number;
      const size_t dot = row.index.empty() ? 0 : 1;
      if (row.index.size() + dot + component.size() > kIndexBytesMax) {
        row.is_index_cut = true;
        break;
      }
      if (!row.index.empty()) row.index += '.';
      row.index += component;
    }
    if (row.index.empty()) row.index = "0";
  }

  // Counts text that is held until the end.
  bool Hold(uint64_t bytes) {
    held_bytes_ += bytes;
    if (held_bytes_ <= kTraceHeldBytesMax) return true;
    return Stop(absl::ResourceExhaustedError(
        "trace: it has too many texts of modules and tensors"));
  }

  uint64_t held_bytes_ = 0;
  // How often each module was called.
  std::map<std::string, int64_t> calls_;
};

// Parses text such as `torch.Size([2, 3])`.
std::optional<std::vector<int64_t>> ShapeOf(std::string_view text) {
  if (!text.starts_with(kShapePrefix) || !text.ends_with("])")) {
    return std::nullopt;
  }
  text.remove_prefix(kShapePrefix.size());
  text.remove_suffix(2);
  std::vector<int64_t> shape;
  while (!text.empty()) {
    int64_t dim = 0;
    const auto [end, error] =
        std::from_chars(text.data(), text.data() + text.size(), dim);
    // One dimension more than a tensor can have, so that CheckShape rejects it.
    if (error != std::errc() || dim < 0 || shape.size() > kDimsMax) {
      return std::nullopt;
    }
    shape.push_back(dim);
    text.remove_prefix(static_cast<size_t>(end - text.data()));
    if (text.starts_with(", ")) text.remove_prefix(2);
  }
  return shape;
}

DType TypeOf(std::string_view text) {
  if (!text.starts_with(kTypePrefix)) return DType::kUnspecified;
  return ParseDType(text.substr(kTypePrefix.size()))
      .value_or(DType::kUnspecified);
}

// Returns the number in text such as `tensor(1.5000e+00, device='cuda:0')`.
std::string NumberIn(std::string_view text) {
  constexpr std::string_view kTensor = "tensor(";
  const size_t begin = text.find(kTensor);
  if (begin == std::string_view::npos) return "";
  text.remove_prefix(begin + kTensor.size());
  return std::string(text.substr(0, text.find_first_of(",)")));
}

// Reads the tensor in the file that the trace names, as `./NAME`.
absl::StatusOr<FileEntry> EntryOfFile(std::string_view name,
                                      const std::string& folder) {
  if (name.starts_with("./")) name.remove_prefix(2);
  if (folder.empty() || name.empty() ||
      name.find('/') != std::string_view::npos) {
    return absl::InvalidArgumentError("its file is not in the same folder");
  }
  const std::string path = folder + "/" + std::string(name);
  std::error_code ignored;
  const auto type = std::filesystem::symlink_status(path, ignored).type();
  if (type == std::filesystem::file_type::symlink) {
    return absl::InvalidArgumentError("its file is a link");
  }
  MSITD_ASSIGN_OR_RETURN(std::unique_ptr<FileSource> source,
                         FileSource::Open(path));
  // A trace has more tensors than a process may have open files.
  auto reopened = std::make_shared<const ReopenedFileSource>(path, *source);
  Attributes attributes;
  MSITD_ASSIGN_OR_RETURN(std::vector<FileEntry> entries,
                         ReadSafetensors(std::move(source), attributes));
  if (entries.size() != 1) {
    return absl::InvalidArgumentError("its file does not have one tensor");
  }
  entries.front().stored.source = std::move(reopened);
  return std::move(entries.front());
}

// The names of files do not contain the call, so a later call of a module
// overwrites the files of an earlier one. Only the statistics of the earlier
// call are right.
void KeepLastFiles(std::vector<Row>& rows) {
  std::set<std::string> later;
  for (auto row = rows.rbegin(); row != rows.rend(); ++row) {
    if (row->file.empty() || later.insert(row->file).second) continue;
    row->file.clear();
  }
}

FileEntry EntryOfRow(const Row& row, const std::string& folder) {
  ForeignTensor tensor;
  tensor.op = row.call == 0 ? row.module
                            : fmt::format("{}/call{}", row.module, row.call);
  tensor.io = row.io;
  tensor.index = row.index;
  tensor.stored_type = row.type;
  if (row.is_index_cut) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "its index has more than {} bytes", kIndexBytesMax));
  }
  if (!row.file.empty()) {
    auto entry = EntryOfFile(row.file, folder);
    if (!entry.ok()) {
      return MakeProblem(std::move(tensor),
                         Annotate(entry.status(), "file " + row.file));
    }
    entry->tensor.op = std::move(tensor.op);
    entry->tensor.io = tensor.io;
    entry->tensor.index = std::move(tensor.index);
    entry->tensor.name.clear();
    return *std::move(entry);
  }
  tensor.dtype = TypeOf(row.type);
  auto shape = ShapeOf(row.shape);
  if (!shape.has_value() || !IsValid(tensor.dtype)) {
    return MakeProblem(
        std::move(tensor),
        MakeStatus(absl::StatusCode::kInvalidArgument,
                   "msitd does not know its shape \"{}\" or its type \"{}\"",
                   row.shape.substr(0, kShownNameBytesMax),
                   row.type.substr(0, kShownNameBytesMax)));
  }
  tensor.shape = *std::move(shape);
  tensor.stored_shape = tensor.shape;
  absl::Status fits = CheckShape(tensor.dtype, tensor.shape);
  if (!fits.ok()) return MakeProblem(std::move(tensor), std::move(fits));
  for (const std::string_view name : kStatistics) {
    const auto at = row.statistics.find(std::string(name));
    if (at == row.statistics.end()) continue;
    tensor.attributes[at->first] = NumberIn(at->second);
  }
  return MakeStatistics(std::move(tensor));
}

}  // namespace

bool IsTransformersTrace(std::string_view first_bytes) {
  const auto skip_blanks = [&first_bytes] {
    const size_t next = first_bytes.find_first_not_of(" \t\r\n");
    first_bytes.remove_prefix(std::min(next, first_bytes.size()));
  };
  skip_blanks();
  if (!first_bytes.starts_with('{')) return false;
  first_bytes.remove_prefix(1);
  skip_blanks();
  return first_bytes.starts_with("\"module_path\"");
}

OpenedFile OpenTransformersTrace(std::shared_ptr<const ByteSource> bytes,
                                 const std::string& folder) {
  if (bytes->size() > kTraceBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "trace: it has more than {} bytes; import the "
                      "_SUMMARY.json instead",
                      kTraceBytesMax);
  }
  TraceHandler handler;
  MSITD_RETURN_IF_ERROR(handler.Parse(*bytes));
  KeepLastFiles(handler.rows);
  std::vector<FileEntry> entries;
  for (const Row& row : handler.rows) {
    entries.push_back(EntryOfRow(row, folder));
  }
  return std::make_unique<TensorFile>(FileKind::kTransformersTrace,
                                      Attributes(), std::move(entries));
}

}  // namespace msitd::formats
