// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msprobe/msprobe_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <istream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <streambuf>
#include <string>
#include <utility>

#include "client/foreign/names/msprobe_names.h"
#include "client/foreign/write/file_name.h"
#include "client/foreign/write/msit/module_tree.h"
#include "client/foreign/write/msprobe/checksum_sink.h"
#include "client/foreign/write/msprobe/msprobe_dump.h"
#include "client/foreign/write/msprobe/msprobe_files.h"
#include "client/foreign/write/msprobe/msprobe_said.h"
#include "client/foreign/write/record_name.h"
#include "client/foreign/write/tensor_index.h"
#include "client/foreign/write/writer/torch_file.h"
#include "protos/base/record_kind.h"
#include "protos/base/source_label.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

constexpr std::array<std::string_view, 4> kDocuments = {
    names::kMsprobeDump, names::kMsprobeStack, names::kMsprobeConstruct,
    names::kMsprobeDebug};
constexpr std::string_view kRoot = "root";
constexpr std::string_view kRootPrefix = "root.";
constexpr std::string_view kModulePrefix = "Module.";
constexpr mode_t kFolderMode = 0750;
constexpr mode_t kFileMode = 0640;

// Prefixes of ops that already have the names of msprobe.
constexpr std::array<std::string_view, 12> kPrefixes = {
    "Module.", "Cell.", "Functional.", "Tensor.",
    "Torch.",  "NPU.",  "VF.",         "Distributed.",
    "Aten.",   "Mint.", "MindSpeed.",  "Triton."};

constexpr size_t kPieceBytes = size_t{64} << 10;

// Reads the bytes of a file that does not have its final name yet.
class WrittenBytes final : public std::streambuf {
 public:
  explicit WrittenBytes(OutputFile& file) : file_(file) {}

 private:
  int_type underflow() override {
    const uint64_t count =
        std::min<uint64_t>(piece_.size(), file_.size() - offset_);
    const std::span<char> piece(piece_.data(), count);
    const bool is_read =
        file_.ReadAt(offset_, std::as_writable_bytes(piece)).ok();
    if (count == 0 || !is_read) return traits_type::eof();
    offset_ += count;
    setg(piece.data(), piece.data(), piece.data() + count);
    return traits_type::to_int_type(piece.front());
  }

  OutputFile& file_;
  uint64_t offset_ = 0;
  std::array<char, kPieceBytes> piece_;
};

class MsprobeLayout final : public Layout {
 public:
  explicit MsprobeLayout(ExportContext& context)
      : context_(context),
        takes_documents_(TakesDocuments(context)),
        takes_tensors_(TakesTensors(context)),
        is_of_msprobe_(IsFromMsprobe(context.run().labels())) {}

  absl::Status BeginRank(const std::string& tree) override {
    tree_ = ParseModuleTree(tree);
    return absl::OkStatus();
  }

  absl::Status BeginGroup(int32_t rank, int64_t token) override {
    rank_ = rank;
    token_ = token;
    folder_ = fmt::format("step{}/rank{}", token, rank);
    documents_.clear();
    files_.clear();
    are_files_read_ = has_files_ = has_own_files_ = false;
    dump_ = {};
    dump_.is_legal_json = context_.options().is_legal_json;
    dump_.has_known_order = context_.has_known_order();
    stack_numbers_.clear();
    stack_bytes_ = 0;
    return absl::OkStatus();
  }

  absl::Status Add(const v1::Tensor& record) override {
    const auto kind = static_cast<RecordKind>(record.kind());
    if (kind == RecordKind::kDocument) return AddDocument(record);
    const auto name = NameOf(record);
    if (!name.has_value()) {
      context_.AddProblem(record, "msprobe has no name for it");
      return absl::OkStatus();
    }
    MsprobeRow row;
    row.name = *name;
    if (kind == RecordKind::kTensor) {
      const absl::Status status = AddTensor(record, row);
      // Its statistics are kept.
      if (!status.ok() && !IsLost(status)) return status;
      if (status.ok()) context_.Count(record);
    } else {
      context_.Count(record);
    }
    return AddRow(record, std::move(row));
  }

  absl::Status EndGroup() override {
    if (DocumentsFit()) return GiveDocumentsBack();
    if (HasDumpDocument()) context_.CountRemade();
    MSITD_RETURN_IF_ERROR(TakeWhatWasSaid());
    if (HasRecordsFor(dump_, MsprobeFile::kDump) ||
        !HasRecordsFor(dump_, MsprobeFile::kDebug)) {
      MSITD_RETURN_IF_ERROR(WriteDump(MsprobeFile::kDump, names::kMsprobeDump));
    }
    if (HasRecordsFor(dump_, MsprobeFile::kDebug)) {
      MSITD_RETURN_IF_ERROR(
          WriteDump(MsprobeFile::kDebug, names::kMsprobeDebug));
    }
    MSITD_RETURN_IF_ERROR(
        WriteText(names::kMsprobeStack, MsprobeStackJson(dump_)));
    return WriteText(names::kMsprobeConstruct, MsprobeConstructJson(dump_));
  }

 private:
  // A document of the run, which does not have its final name yet.
  struct Document {
    v1::Tensor record;
    std::unique_ptr<OutputFile> file;
  };

  // Documents describe the whole token.
  static bool TakesDocuments(const ExportContext& context) {
    const v1::TensorFilter& filter = context.options().filter;
    return filter.op_patterns().empty() && filter.ios().empty() &&
           filter.devices().empty();
  }

  static bool TakesTensors(const ExportContext& context) {
    const auto& kinds = context.options().filter.kinds();
    return kinds.empty() || std::find(kinds.begin(), kinds.end(),
                                      v1::RECORD_KIND_TENSOR) != kinds.end();
  }

  bool HasDumpDocument() const {
    return documents_.count(names::kMsprobeDump) != 0 ||
           documents_.count(names::kMsprobeDebug) != 0;
  }

  // Returns true if the records that are written are those in the documents.
  bool DocumentsFit() {
    if (!HasDumpDocument()) return dump_.rows.empty();
    if (!takes_tensors_) return true;
    ReadFiles();
    return has_files_ && FilesFit(std::move(files_), dump_.rows) &&
           std::all_of(documents_.begin(), documents_.end(),
                       [this](const auto& one) { return IsLegal(one.second); });
  }

  // Returns true if the document may be written unchanged.
  bool IsLegal(const Document& document) const {
    if (!context_.options().is_legal_json) return true;
    WrittenBytes bytes(*document.file);
    std::istream text(&bytes);
    return !HasPythonNumbers(text);
  }

  // Reads which files the documents name. All documents have been added.
  void ReadFiles() {
    if (std::exchange(are_files_read_, true)) return;
    for (const std::string_view name :
         {names::kMsprobeDump, names::kMsprobeDebug}) {
      const auto document = documents_.find(name);
      if (document == documents_.end()) continue;
      WrittenBytes bytes(*document->second.file);
      std::istream text(&bytes);
      if (!AddMsprobeFiles(text, kMsprobeRowsMax, files_).ok()) return;
    }
    std::set<std::string_view> names;
    has_files_ = true;
    has_own_files_ =
        std::all_of(files_.begin(), files_.end(), [&names](const auto& file) {
          return file.second.empty() || names.insert(file.second).second;
        });
  }

  // Returns the name that the documents have for the file of a tensor, such as
  // that of an early release; without a document, the name in current releases.
  std::string FileOf(const names::MsprobeName& name) {
    constexpr std::string_view kSuffix = ".pt";
    const std::string ours = names::MsprobeFileName(name);
    // The tensor of a P2POp has the name of the operation.
    constexpr std::string_view kOperation = ".tensor";
    std::string stem_of_ours = ours;
    if (name.entry.starts_with("Distributed.") &&
        name.keys.ends_with(kOperation)) {
      stem_of_ours.resize(ours.size() - kOperation.size());
    }
    ReadFiles();
    const auto found = files_.find(ours);
    if (has_files_ && has_own_files_ && found != files_.end() &&
        found->second.ends_with(kSuffix)) {
      const std::string& said = found->second;
      const size_t stem = said.size() - kSuffix.size();
      if (FileNameAsIs(said.substr(0, stem), kSuffix) == said) return said;
    }
    return FileNameAsIs(stem_of_ours, kSuffix);
  }

  // Reads the documents that are written again and, for a part of a dump, those
  // that are not exported.
  absl::Status TakeWhatWasSaid() {
    for (const auto& [name, document] : documents_) {
      const uint64_t size = document.file->size();
      if (size > static_cast<uint64_t>(kMsprobeSaidBytesMax)) continue;
      std::string text(size, '\0');
      MSITD_RETURN_IF_ERROR(document.file->ReadAt(
          0, std::as_writable_bytes(std::span(text.data(), text.size()))));
      TakeDocument(name, std::move(text));
    }
    if (!documents_.empty() || !is_of_msprobe_ || dump_.rows.empty()) {
      return absl::OkStatus();
    }
    v1::ListTensorsRequest request;
    request.set_run(context_.options().run);
    v1::TensorFilter& filter = *request.mutable_filter();
    filter.add_ranks(rank_);
    v1::TokenRange& range = *filter.add_tokens();
    range.set_first(token_);
    range.set_last(token_);
    filter.add_kinds(v1::RECORD_KIND_DOCUMENT);
    for (const std::string_view name : kDocuments) {
      filter.add_op_patterns(std::string(name));
    }
    v1::ListTensorsResponse page;
    MSITD_RETURN_IF_ERROR(context_.Ask(request, page));
    for (const v1::Tensor& document : page.tensors()) {
      if (!document.has_bytes() ||
          document.size_bytes() > kMsprobeSaidBytesMax) {
        continue;
      }
      std::string text;
      const absl::Status status =
          context_.Read(document, [&text](std::string_view piece) {
            text += piece;
            return absl::OkStatus();
          });
      if (IsLost(status)) continue;
      MSITD_RETURN_IF_ERROR(status);
      TakeDocument(document.op(), std::move(text));
    }
    return absl::OkStatus();
  }

  // Parts of it that cannot be read are created from the records.
  void TakeDocument(std::string_view name, std::string text) {
    TakeMsprobeDocument(name, std::move(text), dump_).IgnoreError();
  }

  absl::Status GiveDocumentsBack() {
    for (const auto& [name, document] : documents_) {
      if (!IsLegal(document)) {
        context_.AddProblem(document.record,
                            "it has NaN or Infinity, which are not valid JSON");
        continue;
      }
      const absl::Status status =
          context_.Commit(*document.file, &document.record);
      if (IsLost(status)) continue;
      MSITD_RETURN_IF_ERROR(status);
      context_.Count(document.record);
    }
    return absl::OkStatus();
  }

  std::optional<names::MsprobeName> NameOf(const v1::Tensor& record) const {
    std::string op = record.op();
    const bool is_named = std::any_of(
        kPrefixes.begin(), kPrefixes.end(),
        [&op](std::string_view prefix) { return op.starts_with(prefix); });
    const auto io = static_cast<Io>(record.io());
    if (!is_named && io != Io::kState && IsModule(op)) op = ModuleName(op);
    return names::MsprobeNameOf({op, record.call(), io, record.index()});
  }

  // In a run with a document of msprobe, ops have msprobe's names, even without
  // a known prefix. If nothing indicates which ops are modules, every op
  // without such a name is one.
  bool IsModule(const std::string& op) const {
    if (is_of_msprobe_ || !documents_.empty()) return false;
    return tree_.modules.empty() || op == kRoot ||
           op.starts_with(kRootPrefix) || !tree_.TypeOf(op).empty();
  }

  // Returns `Module.layers.0.Linear` for `root.layers.0`.
  std::string ModuleName(const std::string& op) const {
    std::string_view path = op;
    if (path.starts_with(kRootPrefix)) path.remove_prefix(kRootPrefix.size());
    const std::string_view type = tree_.TypeOf(op);
    return fmt::format("{}{}.{}", kModulePrefix, path,
                       type.empty() ? "Module" : type);
  }

  absl::Status AddDocument(const v1::Tensor& record) {
    const bool is_ours = std::find(kDocuments.begin(), kDocuments.end(),
                                   record.op()) != kDocuments.end();
    if (!is_ours || !takes_documents_) return absl::OkStatus();
    if (!record.has_bytes()) {
      context_.AddProblem(record, WhyNoBytes(record));
      return absl::OkStatus();
    }
    MSITD_RETURN_IF_ERROR(MakeFolders());
    std::unique_ptr<OutputFile> file;
    if (const auto known = documents_.find(record.op());
        known != documents_.end()) {
      if (known->second.record.device() != record.device()) {
        context_.AddProblem(record, "another record has the name of its file");
        return absl::OkStatus();
      }
      // A later call is a later version.
      if (record.call() < known->second.record.call()) return absl::OkStatus();
      file = std::move(known->second.file);
      documents_.erase(known);
      MSITD_RETURN_IF_ERROR(file->Truncate(0));
    } else {
      MSITD_ASSIGN_OR_RETURN(file, context_.folder().Create(
                                       folder_ + "/" + record.op(), kFileMode));
    }
    const absl::Status status = context_.Read(
        record, [&file](std::string_view piece) { return file->Write(piece); });
    if (IsLost(status)) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(status);
    documents_.emplace(record.op(), Document{record, std::move(file)});
    return absl::OkStatus();
  }

  // Returns DATA_LOSS if the tensor should have a file but has none.
  absl::Status AddTensor(const v1::Tensor& record, MsprobeRow& row) {
    if (const std::string why = WhyNoBytes(record); !why.empty()) {
      const bool is_told = HasDumpDocument() ||
                           context_.run().counters().expired_size_bytes() > 0;
      if (!is_told) return absl::OkStatus();
      context_.AddProblem(record, why);
      return absl::DataLossError(why);
    }
    ChecksumSink checksum(context_.options().checksum);
    if (context_.options().without_tensors) {
      MSITD_RETURN_IF_ERROR(context_.Read(
          record, [&](std::string_view bytes) { return checksum.Add(bytes); }));
      row.checksum = checksum.Take();
      return absl::OkStatus();
    }
    const std::string name = FileOf(row.name);
    MSITD_RETURN_IF_ERROR(MakeFolders());
    MSITD_RETURN_IF_ERROR(context_.folder().MakeFolder(
        fmt::format("{}/{}", folder_, names::kMsprobeTensors), kFolderMode));
    MSITD_ASSIGN_OR_RETURN(
        const auto file,
        context_.folder().Create(
            fmt::format("{}/{}/{}", folder_, names::kMsprobeTensors, name),
            kFileMode));
    TorchTensor tensor = TorchTensorOf(record);
    tensor.requires_grad = false;
    MSITD_RETURN_IF_ERROR(WriteTorchFile(
        *file, name.substr(0, name.rfind('.')), tensor, [&](TorchSink sink) {
          return context_.Read(record, [&](std::string_view bytes) {
            MSITD_RETURN_IF_ERROR(checksum.Add(bytes));
            return sink(bytes);
          });
        }));
    MSITD_RETURN_IF_ERROR(context_.Commit(*file, &record));
    row.checksum = checksum.Take();
    row.file = name;
    return absl::OkStatus();
  }

  absl::Status AddRow(const v1::Tensor& record, MsprobeRow row) {
    if (dump_.rows.size() == kMsprobeRowsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "{} has more than {} records; select some of its ops",
                        folder_, kMsprobeRowsMax);
    }
    row.kind = static_cast<RecordKind>(record.kind());
    row.dtype = static_cast<DType>(record.dtype());
    row.shape = ShapeOf(record);
    row.requires_grad = record.requires_grad();
    row.text = record.value();
    row.summary = record.summary();
    row.sequence = record.sequence();
    row.resource_name = record.name();
    if (!record.stack().empty()) {
      const auto [found, is_new] =
          stack_numbers_.try_emplace(record.stack(), dump_.stacks.size());
      row.stack = found->second;
      if (is_new) dump_.stacks.push_back(record.stack());
      if (is_new) stack_bytes_ += 2 * record.stack().size();
      if (stack_bytes_ > kMsprobeStackBytesMax) {
        return MakeStatus(absl::StatusCode::kResourceExhausted,
                          "stacks of {} have more than {} bytes", folder_,
                          kMsprobeStackBytesMax);
      }
    }
    dump_.rows.push_back(std::move(row));
    return absl::OkStatus();
  }

  absl::Status WriteDump(MsprobeFile kind, std::string_view name) {
    const bool has_files =
        std::any_of(dump_.rows.begin(), dump_.rows.end(),
                    [](const MsprobeRow& row) { return !row.file.empty(); });
    if (has_files) {
      dump_.data_folder =
          fmt::format("{}/{}/{}", context_.folder().AbsolutePath(), folder_,
                      names::kMsprobeTensors);
    }
    MSITD_ASSIGN_OR_RETURN(const auto file, Begin(name));
    MSITD_RETURN_IF_ERROR(WriteMsprobeDump(
        dump_, kind,
        [&file](std::string_view piece) { return file->Write(piece); },
        [this](const MsprobeRow& row) {
          v1::Tensor record;
          record.set_name(row.resource_name);
          context_.AddProblem(record, "another record has its place");
        }));
    return context_.Commit(*file);
  }

  absl::Status WriteText(std::string_view name, const std::string& text) {
    MSITD_ASSIGN_OR_RETURN(const auto file, Begin(name));
    MSITD_RETURN_IF_ERROR(file->Write(text));
    return context_.Commit(*file);
  }

  // Begins a file that is created from records, in place of the document with
  // the same name.
  absl::StatusOr<std::unique_ptr<OutputFile>> Begin(std::string_view name) {
    const auto document = documents_.find(name);
    if (document == documents_.end()) {
      MSITD_RETURN_IF_ERROR(MakeFolders());
      return context_.folder().Create(fmt::format("{}/{}", folder_, name),
                                      kFileMode);
    }
    std::unique_ptr<OutputFile> file = std::move(document->second.file);
    documents_.erase(document);
    MSITD_RETURN_IF_ERROR(file->Truncate(0));
    return file;
  }

  absl::Status MakeFolders() {
    return context_.folder().MakeFolder(folder_, kFolderMode);
  }

  ExportContext& context_;
  const bool takes_documents_;
  const bool takes_tensors_;
  const bool is_of_msprobe_;
  ModuleTree tree_;
  // The rank and token of the group.
  int32_t rank_ = 0;
  int64_t token_ = 0;
  std::string folder_;
  std::map<std::string, Document, std::less<>> documents_;
  // The files that the documents name, whether these have been read, and
  // whether each file belongs to one tensor.
  MsprobeFiles files_;
  bool are_files_read_ = false;
  bool has_files_ = false;
  bool has_own_files_ = false;
  MsprobeDump dump_;
  std::map<std::string, size_t> stack_numbers_;
  size_t stack_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Layout> MakeMsprobeLayout(ExportContext& context) {
  return std::make_unique<MsprobeLayout>(context);
}

}  // namespace msitd::write
