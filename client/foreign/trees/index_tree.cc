// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/trees/index_tree.h"

#include <fmt/format.h>

#include <algorithm>
#include <functional>
#include <limits>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_set>
#include <utility>
#include <vector>

#include "client/foreign/formats/byte_source.h"
#include "client/foreign/formats/format_limits.h"
#include "client/foreign/formats/tensor_file.h"
#include "client/foreign/names/export_index.h"
#include "client/foreign/trees/json/json_value.h"
#include "client/foreign/trees/tree_base.h"
#include "client/foreign/trees/tree_limits.h"
#include "protos/base/limits.h"
#include "protos/base/order_label.h"
#include "protos/base/utf8.h"
#include "protos/status/status.h"

namespace msitd::trees {
namespace {

constexpr int64_t kNumberMax = std::numeric_limits<int64_t>::max();
constexpr size_t kPieceBytes = size_t{256} << 10;

absl::Status NotALine(std::string_view key) {
  return MakeStatus(absl::StatusCode::kInvalidArgument,
                    "it has no valid \"{}\"", key);
}

// Returns the text under `key`; empty if there is none.
std::string TextOf(const JsonValue& line, std::string_view key) {
  const JsonValue* const value = line.Find(key);
  return value != nullptr && value->IsString() ? value->text : std::string();
}

absl::Status ReadInteger(const JsonValue& line, std::string_view key,
                         int64_t max, int64_t& out) {
  const JsonValue* const value = line.Find(key);
  const auto number =
      value == nullptr ? std::nullopt : IntegerOf(*value, 0, max);
  if (!number.has_value()) return NotALine(key);
  out = *number;
  return absl::OkStatus();
}

absl::StatusOr<JsonValue> ParseLine(std::string text) {
  const formats::MemorySource source(std::move(text));
  JsonReader reader(source);
  MSITD_ASSIGN_OR_RETURN(JsonValue line, ReadJsonValue(reader));
  if (!line.IsObject()) {
    return absl::InvalidArgumentError("it is not a JSON object");
  }
  return line;
}

absl::Status ReadKey(const JsonValue& line, TensorKey& key) {
  int64_t rank = 0;
  int64_t call = 0;
  MSITD_RETURN_IF_ERROR(ReadInteger(line, names::kIndexRank, kRankMax, rank));
  MSITD_RETURN_IF_ERROR(
      ReadInteger(line, names::kIndexToken, kTokenMax, key.token));
  MSITD_RETURN_IF_ERROR(ReadInteger(line, names::kIndexCall, kCallMax, call));
  key.rank = static_cast<int32_t>(rank);
  key.call = static_cast<int32_t>(call);
  key.device = TextOf(line, names::kIndexDevice);
  key.op = TextOf(line, names::kIndexOp);
  key.index = TextOf(line, names::kIndexIndex);
  const auto io = ParseIo(TextOf(line, names::kIndexIo));
  if (!io.has_value()) return NotALine(names::kIndexIo);
  key.io = *io;
  return absl::OkStatus();
}

absl::Status ReadShape(const JsonValue& line, std::vector<int64_t>& out) {
  const JsonValue* const shape = line.Find(names::kIndexShape);
  if (shape == nullptr || !shape->IsArray()) {
    return NotALine(names::kIndexShape);
  }
  for (const JsonValue& extent : shape->items) {
    const auto number = IntegerOf(extent, 0, kNumberMax);
    if (!number.has_value()) return NotALine(names::kIndexShape);
    out.push_back(*number);
  }
  return absl::OkStatus();
}

// Returns the bytes of a tensor of an archive.
absl::StatusOr<std::string> ReadMember(const std::string& path,
                                       const std::string& member) {
  MSITD_ASSIGN_OR_RETURN(const auto file, formats::OpenTensorFile(path, {}));
  const formats::ForeignTensor* tensor = file->Next();
  while (tensor != nullptr && tensor->name != member) tensor = file->Next();
  if (tensor == nullptr) {
    return MakeStatus(absl::StatusCode::kNotFound, "it has no tensor {}",
                      member);
  }
  if (tensor->bytes > kDocumentBytesMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it has {} bytes, more than {}", tensor->bytes,
                      kDocumentBytesMax);
  }
  // A reader requires more memory than the end of a text may need.
  std::string text(tensor->bytes + formats::kReadBytesMin, '\0');
  size_t filled = 0;
  while (filled < tensor->bytes) {
    MSITD_ASSIGN_OR_RETURN(
        const size_t count,
        file->Read(std::as_writable_bytes(
            std::span(text.data(), text.size()).subspan(filled))));
    if (count == 0) return absl::DataLossError("it ends before its last byte");
    filled += count;
  }
  text.resize(tensor->bytes);
  return text;
}

class IndexTree final : public TreeBase {
 public:
  explicit IndexTree(const TreeFolder& folder)
      : TreeBase(TreeKind::kFiles, folder),
        index_path_(folder.PathOf(std::string(names::kExportIndex))) {}

  absl::Status Open() {
    MSITD_ASSIGN_OR_RETURN(source_, formats::FileSource::Open(index_path_));
    MSITD_RETURN_IF_ERROR(ReadLines());
    std::sort(records_.begin(), records_.end(),
              [](const Record& a, const Record& b) {
                return std::tie(a.rank, a.token, a.sequence, a.offset) <
                       std::tie(b.rank, b.token, b.sequence, b.offset);
              });
    std::set<int32_t> ranks;
    for (const Record& record : records_) ranks.insert(record.rank);
    set_ranks({ranks.begin(), ranks.end()});
    return absl::OkStatus();
  }

  const TreeEntry* Next() override {
    while (next_ < records_.size()) {
      const Record& record = records_[next_++];
      const absl::Status made = MakeEntry(record);
      if (made.ok() && CheckKey(entry_.key, index_path_)) return &entry_;
      if (!made.ok()) AddProblem(problem_file_, made);
    }
    if (!std::exchange(is_checked_, true)) FindUnnamedFiles();
    return nullptr;
  }

 private:
  // A line of the index.
  struct Record {
    int64_t token = 0;
    int64_t sequence = 0;
    uint64_t offset = 0;
    uint32_t bytes = 0;
    int32_t rank = 0;
  };

  // Reads the index in pieces, and remembers the offsets of its lines.
  absl::Status ReadLines() {
    std::string rest;
    uint64_t begin = 0;  // The offset of `rest`.
    for (uint64_t offset = 0; offset < source_->size();) {
      const uint64_t bytes =
          std::min<uint64_t>(kPieceBytes, source_->size() - offset);
      MSITD_ASSIGN_OR_RETURN(const std::string piece,
                             source_->ReadText(offset, bytes));
      offset += bytes;
      rest += piece;
      size_t line = 0;
      for (size_t end = rest.find('\n'); end != std::string::npos;
           end = rest.find('\n', line)) {
        MSITD_RETURN_IF_ERROR(
            AddLine(rest.substr(line, end - line), begin + line));
        line = end + 1;
      }
      rest.erase(0, line);
      begin += line;
      if (rest.size() > kIndexLineBytesMax) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "{}: a line has more than {} bytes", index_path_,
                          kIndexLineBytesMax);
      }
    }
    return rest.empty() ? absl::OkStatus() : AddLine(rest, begin);
  }

  absl::Status AddLine(std::string text, uint64_t offset) {
    ++line_count_;
    if (text.empty()) return absl::OkStatus();
    if (records_.size() == kIndexRecordsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "{} has more than {} records", index_path_,
                        kIndexRecordsMax);
    }
    Record record;
    record.offset = offset;
    record.bytes = static_cast<uint32_t>(text.size());
    const absl::Status read = ReadPlace(std::move(text), record);
    if (!read.ok()) {
      AddProblem(index_path_,
                 Annotate(read, "line " + std::to_string(line_count_)));
      return absl::OkStatus();
    }
    records_.push_back(record);
    return absl::OkStatus();
  }

  absl::Status ReadPlace(std::string text, Record& record) {
    MSITD_ASSIGN_OR_RETURN(const JsonValue line, ParseLine(std::move(text)));
    TensorKey key;
    MSITD_RETURN_IF_ERROR(ReadKey(line, key));
    MSITD_RETURN_IF_ERROR(
        ReadInteger(line, names::kIndexSequence, kNumberMax, record.sequence));
    record.rank = key.rank;
    record.token = key.token;
    if (TextOf(line, names::kIndexOrder) == kUnknownOrder) {
      set_has_known_order(false);
    }
    const std::string file = TextOf(line, names::kIndexFile);
    if (!file.empty()) named_files_.insert(std::hash<std::string>()(file));
    return absl::OkStatus();
  }

  absl::Status MakeEntry(const Record& record) {
    problem_file_ = index_path_;
    MSITD_ASSIGN_OR_RETURN(std::string text,
                           source_->ReadText(record.offset, record.bytes));
    MSITD_ASSIGN_OR_RETURN(const JsonValue line, ParseLine(std::move(text)));
    entry_ = TreeEntry();
    MSITD_RETURN_IF_ERROR(ReadKey(line, entry_.key));
    const auto kind = ParseRecordKind(TextOf(line, names::kIndexKind));
    if (!kind.has_value()) return NotALine(names::kIndexKind);
    entry_.kind = *kind;
    const JsonValue* const grad = line.Find(names::kIndexRequiresGrad);
    if (grad != nullptr && grad->IsBool()) {
      entry_.requires_grad = grad->type == JsonToken::kTrue;
    }
    const absl::Status read = ReadContent(line);
    if (read.ok()) return read;
    return Annotate(read, fmt::format("{} {} of {}", IoName(entry_.key.io),
                                      entry_.key.index, entry_.key.op));
  }

  // Reads the contents of the record, or the location of its bytes.
  absl::Status ReadContent(const JsonValue& line) {
    if (const std::string why = TextOf(line, names::kIndexProblem);
        !why.empty()) {
      return MakeStatus(absl::StatusCode::kDataLoss,
                        "missing in the export: {}", why);
    }
    if (!IsValue(entry_.kind) || !IsTextOnly(entry_.kind)) {
      const auto dtype = ParseDType(TextOf(line, names::kIndexDType));
      if (!dtype.has_value()) return NotALine(names::kIndexDType);
      entry_.dtype = *dtype;
    }
    if (HasValueText(entry_.kind)) {
      entry_.text = TextOf(line, names::kIndexValue);
      if (entry_.kind != RecordKind::kStatistics) {
        entry_.dtype = DType::kUnspecified;
        return absl::OkStatus();
      }
      return ReadShape(line, entry_.shape);
    }
    return ReadFile(line);
  }

  absl::Status ReadFile(const JsonValue& line) {
    const std::string relative = TextOf(line, names::kIndexFile);
    const std::string path = root().PathOf(relative);
    MSITD_RETURN_IF_ERROR(root().CheckFile(relative));
    problem_file_ = path;
    if (entry_.kind != RecordKind::kDocument) {
      entry_.file = path;
      entry_.tensor = TextOf(line, names::kIndexMember);
      return absl::OkStatus();
    }
    const std::string member = TextOf(line, names::kIndexMember);
    MSITD_ASSIGN_OR_RETURN(
        entry_.text, member.empty() ? ReadSmallFile(path, kDocumentBytesMax)
                                    : ReadMember(path, member));
    entry_.dtype = DType::kUnspecified;
    return IsValidUtf8(entry_.text)
               ? absl::OkStatus()
               : absl::InvalidArgumentError("it is not UTF-8");
  }

  void FindUnnamedFiles() {
    const absl::Status walked =
        WalkFolders(root(), [this](const std::string& path, Listing* listing) {
          AddProblems(std::move(listing->problems));
          for (const std::string& name : listing->files) {
            const std::string file = JoinPath(path, name);
            if (file == names::kExportIndex ||
                named_files_.contains(std::hash<std::string>()(file))) {
              continue;
            }
            AddProblem(root().PathOf(file),
                       MakeStatus(absl::StatusCode::kInvalidArgument,
                                  "it is not read: {} does not name it",
                                  names::kExportIndex));
          }
          return absl::OkStatus();
        });
    if (!walked.ok()) AddProblem(root().PathOf(""), walked);
  }

  const std::string index_path_;
  std::unique_ptr<formats::FileSource> source_;
  std::vector<Record> records_;
  size_t next_ = 0;
  int64_t line_count_ = 0;
  // Hashes of files that the index names.
  std::unordered_set<size_t> named_files_;
  bool is_checked_ = false;
  // The file that a problem of the current record concerns.
  std::string problem_file_;
  TreeEntry entry_;
};

}  // namespace

OpenedTree OpenIndexTree(const TreeFolder& folder) {
  auto tree = std::make_unique<IndexTree>(folder);
  MSITD_RETURN_IF_ERROR(tree->Open());
  return tree;
}

}  // namespace msitd::trees
