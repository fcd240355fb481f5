// SPDX-License-Identifier: Apache-2.0
#include "client/export/msprobe_layout.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "client/export/file_name.h"
#include "client/export/module_tree.h"
#include "client/export/msprobe_dump.h"
#include "client/export/record_name.h"
#include "client/export/tensor_index.h"
#include "client/export/torch_file.h"
#include "protos/base/record_kind.h"
#include "protos/status/status.h"

namespace msitd::exports {
namespace {

constexpr std::array<std::string_view, 4> kDocuments = {
    "dump.json", "stack.json", "construct.json", "debug.json"};
constexpr char kDataFolder[] = "dump_tensor_data";
constexpr std::string_view kRoot = "root";
constexpr std::string_view kModulePrefix = "Module.";
constexpr mode_t kFolderMode = 0750;
constexpr mode_t kFileMode = 0640;

// Ops that have the names of msprobe already.
constexpr std::array<std::string_view, 12> kPrefixes = {
    "Module.", "Cell.", "Functional.", "Tensor.",
    "Torch.",  "NPU.",  "VF.",         "Distributed.",
    "Aten.",   "Mint.", "MindSpeed.",  "Triton."};

class MsprobeLayout final : public Layout {
 public:
  explicit MsprobeLayout(ExportContext& context)
      : context_(context), takes_documents_(TakesDocuments(context)) {}

  absl::Status BeginRank(const std::string& tree) override {
    tree_ = ParseModuleTree(tree);
    return absl::OkStatus();
  }

  absl::Status BeginGroup(int32_t rank, int64_t token) override {
    folder_ = fmt::format("step{}/rank{}", token, rank);
    documents_.clear();
    dump_ = {};
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
    // What is given back as it is needs no rows.
    if (documents_.count("dump.json") != 0) return absl::OkStatus();
    return AddRow(record, std::move(row));
  }

  absl::Status EndGroup() override {
    if (documents_.count("dump.json") != 0 || dump_.rows.empty()) {
      return absl::OkStatus();
    }
    if (HasRecordsFor(dump_, MsprobeFile::kDump) ||
        !HasRecordsFor(dump_, MsprobeFile::kDebug)) {
      MSITD_RETURN_IF_ERROR(WriteDump(MsprobeFile::kDump, "dump.json"));
    }
    if (HasRecordsFor(dump_, MsprobeFile::kDebug)) {
      MSITD_RETURN_IF_ERROR(WriteDump(MsprobeFile::kDebug, "debug.json"));
    }
    MSITD_RETURN_IF_ERROR(WriteText("stack.json", MsprobeStackJson(dump_)));
    return WriteText("construct.json", MsprobeConstructJson(dump_));
  }

 private:
  // Documents tell of the whole token.
  static bool TakesDocuments(const ExportContext& context) {
    const v1::TensorFilter& filter = context.options().filter;
    return filter.op_patterns().empty() && filter.ios().empty() &&
           filter.devices().empty();
  }

  std::optional<trees::MsprobeName> NameOf(const v1::Tensor& record) const {
    std::string op = record.op();
    const bool is_named = std::any_of(
        kPrefixes.begin(), kPrefixes.end(),
        [&op](std::string_view prefix) { return op.starts_with(prefix); });
    const auto io = static_cast<Io>(record.io());
    if (!is_named && io != Io::kState) op = ModuleName(op);
    return trees::MsprobeNameOf({op, record.call(), io, record.index()},
                                trees::MsprobeGrammar::kCurrent);
  }

  // `root.layers.0` is `Module.layers.0.Linear`.
  std::string ModuleName(const std::string& op) const {
    std::string_view path = op;
    if (path.starts_with(std::string(kRoot) + ".")) {
      path.remove_prefix(kRoot.size() + 1);
    }
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
    MSITD_ASSIGN_OR_RETURN(
        const auto file,
        context_.folder().Create(folder_ + "/" + record.op(), kFileMode));
    absl::Status status = context_.Read(
        record, [&file](std::string_view piece) { return file->Write(piece); });
    if (status.ok()) status = context_.Commit(*file, &record);
    if (IsLost(status)) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(status);
    documents_.insert(record.op());
    context_.Count(record);
    return absl::OkStatus();
  }

  // DATA_LOSS if it has no file though it should.
  absl::Status AddTensor(const v1::Tensor& record, MsprobeRow& row) {
    if (const std::string why = WhyNoBytes(record); !why.empty()) {
      const bool is_told = documents_.count("dump.json") != 0 ||
                           context_.run().counters().expired_size_bytes() > 0;
      if (!is_told) return absl::OkStatus();
      context_.AddProblem(record, why);
      return absl::DataLossError(why);
    }
    const std::string name =
        FileNameAsIs(trees::MsprobeFileName(row.name), ".pt");
    MSITD_RETURN_IF_ERROR(MakeFolders());
    MSITD_RETURN_IF_ERROR(context_.folder().MakeFolder(
        fmt::format("{}/{}", folder_, kDataFolder), kFolderMode));
    MSITD_ASSIGN_OR_RETURN(
        const auto file,
        context_.folder().Create(
            fmt::format("{}/{}/{}", folder_, kDataFolder, name), kFileMode));
    TorchTensor tensor = TorchTensorOf(record);
    tensor.requires_grad = false;
    MSITD_RETURN_IF_ERROR(WriteTorchFile(
        *file, name.substr(0, name.rfind('.')), tensor,
        [&](TorchSink sink) { return context_.Read(record, sink); }));
    MSITD_RETURN_IF_ERROR(context_.Commit(*file, &record));
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
      dump_.data_folder = fmt::format(
          "{}/{}/{}", context_.folder().AbsolutePath(), folder_, kDataFolder);
    }
    MSITD_RETURN_IF_ERROR(MakeFolders());
    MSITD_ASSIGN_OR_RETURN(const auto file,
                           context_.folder().Create(
                               fmt::format("{}/{}", folder_, name), kFileMode));
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
    MSITD_ASSIGN_OR_RETURN(const auto file,
                           context_.folder().Create(
                               fmt::format("{}/{}", folder_, name), kFileMode));
    MSITD_RETURN_IF_ERROR(file->Write(text));
    return context_.Commit(*file);
  }

  absl::Status MakeFolders() {
    return context_.folder().MakeFolder(folder_, kFolderMode);
  }

  ExportContext& context_;
  const bool takes_documents_;
  ModuleTree tree_;
  // Of the group.
  std::string folder_;
  std::set<std::string, std::less<>> documents_;  // That were given back.
  MsprobeDump dump_;
  std::map<std::string, size_t> stack_numbers_;
  size_t stack_bytes_ = 0;
};

}  // namespace

std::unique_ptr<Layout> MakeMsprobeLayout(ExportContext& context) {
  return std::make_unique<MsprobeLayout>(context);
}

}  // namespace msitd::exports
