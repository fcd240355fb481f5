// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/write/msit/msit_layout.h"

#include <fmt/chrono.h>
#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/foreign/names/msit_names.h"
#include "client/foreign/write/file_name.h"
#include "client/foreign/write/msit/module_tree.h"
#include "client/foreign/write/msit/msit_statistics.h"
#include "client/foreign/write/record_name.h"
#include "client/foreign/write/tensor_index.h"
#include "client/foreign/write/writer/torch_file.h"
#include "protos/base/record_kind.h"
#include "protos/base/tensor_key.h"
#include "protos/status/status.h"

namespace msitd::write {
namespace {

// The modes that msit uses.
constexpr mode_t kOuterMode = 0755;
constexpr mode_t kDeviceMode = 0750;
constexpr mode_t kTextMode = 0640;
constexpr mode_t kTensorMode = 0644;

// Returns `npu5` for `npu:5`, and `cpu` for any CPU.
std::string DeviceName(std::string_view device) {
  if (device == "cpu" || device.starts_with("cpu:")) return "cpu";
  std::string out(device);
  std::erase(out, ':');
  return FileNameAsIs(out, "");
}

class MsitLayout final : public Layout {
 public:
  explicit MsitLayout(ExportContext& context)
      : context_(context), root_(RootOf(context.run())) {}

  absl::Status BeginRank(const std::string& tree) override {
    tree_ = ParseModuleTree(tree);
    tree_text_ = tree_.is_of_msit ? tree : MsitModelTree(tree_);
    devices_.clear();
    return absl::OkStatus();
  }

  absl::Status Add(const v1::Tensor& record) override {
    const auto kind = static_cast<RecordKind>(record.kind());
    if (kind == RecordKind::kDocument) {
      // The tree is written with the first tensor.
      if (IsTree(record.op())) context_.Count(record);
      return absl::OkStatus();
    }
    if (IsValue(kind)) {
      context_.AddProblem(record, "msit cannot store values");
      return absl::OkStatus();
    }
    const bool is_more = pending_.has_value() && IsSameOp(*pending_, record) &&
                         record.io() == pending_->io();
    MSITD_RETURN_IF_ERROR(FlushPending(/*is_only=*/!is_more));
    if (static_cast<Io>(record.io()) == Io::kOutput && record.index() == "0" &&
        !is_more) {
      pending_ = record;
      return absl::OkStatus();
    }
    return AddFile(record, /*is_only_output=*/false);
  }

  absl::Status BeginGroup(int32_t /*rank*/, int64_t token) override {
    token_ = token;
    ends_.clear();
    return absl::OkStatus();
  }

  absl::Status EndGroup() override {
    MSITD_RETURN_IF_ERROR(FlushPending(/*is_only=*/true));
    MSITD_RETURN_IF_ERROR(EndStatistics());
    return context_.has_known_order() ? WriteOrder() : absl::OkStatus();
  }

 private:
  static std::string RootOf(const v1::Run& run) {
    const std::time_t time = run.create_time().seconds();
    return fmt::format("msit_dump_{:%Y%m%d_%H%M%S}/{}", fmt::gmtime(time),
                       names::kMsitTensors);
  }

  static bool IsTree(std::string_view op) {
    return op == names::kMsitModelTree || op == "module_tree.json";
  }

  static bool IsSameOp(const v1::Tensor& a, const v1::Tensor& b) {
    return a.device() == b.device() && a.op() == b.op() && a.call() == b.call();
  }

  absl::Status FlushPending(bool is_only) {
    if (!pending_.has_value()) return absl::OkStatus();
    const v1::Tensor record = std::move(*pending_);
    pending_.reset();
    return AddFile(record, is_only);
  }

  std::string DeviceFolder(const v1::Tensor& record) const {
    return fmt::format("{}/{}_{}", root_, DeviceName(record.device()),
                       record.rank());
  }

  // Returns the folder of an op. For later calls, the number of the call is
  // appended.
  std::string OpFolder(const v1::Tensor& record) const {
    std::string op = record.op();
    if (record.call() != 0) {
      std::string numbered = fmt::format("{}.{}", op, record.call());
      // A part of the module may have this name.
      op = tree_.by_op.count(numbered) == 0
               ? std::move(numbered)
               : fmt::format("{}.call{}", op, record.call());
    }
    return fmt::format("{}/{}/{}", DeviceFolder(record), record.token(),
                       FileNameAsIs(op, ""));
  }

  absl::Status AddFile(const v1::Tensor& record, bool is_only_output) {
    MSITD_RETURN_IF_ERROR(BeginDevice(record));
    const bool is_weight = static_cast<Io>(record.io()) == Io::kWeight;
    const std::string folder =
        is_weight
            ? fmt::format("{}/{}", DeviceFolder(record), names::kMsitWeights)
            : OpFolder(record);
    const std::string stem =
        is_weight
            ? FileNameAsIs(record.op() + "." + record.index(), "")
            : FileNameAsIs(names::MsitStem(static_cast<Io>(record.io()),
                                           record.index(), is_only_output),
                           "");
    const bool is_api = !is_weight && !tree_.modules.empty() &&
                        tree_.by_op.count(record.op()) == 0;
    MSITD_RETURN_IF_ERROR(context_.folder().MakeFolder(
        folder, is_api ? kOuterMode : kDeviceMode));
    AddToOrder(record, folder);
    const bool is_statistics =
        static_cast<RecordKind>(record.kind()) == RecordKind::kStatistics;
    if (!is_weight && (is_statistics || context_.options().with_statistics)) {
      MSITD_RETURN_IF_ERROR(AddStatistics(record, folder, stem));
    }
    if (is_statistics) {
      context_.Count(record);
      return absl::OkStatus();
    }
    const absl::Status status = WriteTensor(record, folder, stem);
    if (status.ok()) context_.Count(record);
    return IsLost(status) ? absl::OkStatus() : status;
  }

  absl::Status WriteTensor(const v1::Tensor& record, const std::string& folder,
                           const std::string& stem) {
    if (const std::string why = WhyNoBytes(record); !why.empty()) {
      context_.AddProblem(record, why);
      return absl::OkStatus();
    }
    MSITD_ASSIGN_OR_RETURN(
        const auto file,
        context_.folder().Create(
            fmt::format("{}/{}{}", folder, stem, names::kMsitTensorSuffix),
            kTensorMode));
    MSITD_RETURN_IF_ERROR(WriteTorchFile(
        *file, stem, TorchTensorOf(record),
        [&](TorchSink sink) { return context_.Read(record, sink); }));
    return context_.Commit(*file, &record);
  }

  // Records that the folder of an op has a record of the token. Readers support
  // only inputs and outputs; gradients are in the folders of the forward calls.
  void AddToOrder(const v1::Tensor& record, const std::string& folder) {
    const auto io = static_cast<Io>(record.io());
    if (io != Io::kInput && io != Io::kOutput) return;
    int64_t& end =
        ends_[DeviceFolder(record)][folder.substr(folder.rfind('/') + 1)];
    end = std::max(end, record.sequence());
  }

  // Writes the order in which the calls of the token ended, for each device.
  absl::Status WriteOrder() {
    for (const auto& [device, ends] : ends_) {
      std::vector<std::pair<int64_t, std::string_view>> order;
      order.reserve(ends.size());
      for (const auto& [name, end] : ends) order.emplace_back(end, name);
      std::sort(order.begin(), order.end());
      MSITD_RETURN_IF_ERROR(context_.folder().MakeFolder(
          fmt::format("{}/{}", device, names::kMsitOrder), kDeviceMode));
      MSITD_ASSIGN_OR_RETURN(
          const auto file,
          context_.folder().Create(
              fmt::format("{}/{}/{}{}", device, names::kMsitOrder, token_,
                          names::kMsitOrderSuffix),
              kTextMode));
      for (const auto& [end, name] : order) {
        MSITD_RETURN_IF_ERROR(file->Write(fmt::format("{}\n", name)));
      }
      MSITD_RETURN_IF_ERROR(context_.Commit(*file));
    }
    return absl::OkStatus();
  }

  // Creates the folder of a device for its first record.
  absl::Status BeginDevice(const v1::Tensor& record) {
    const std::string folder = DeviceFolder(record);
    if (!devices_.insert(folder).second) return absl::OkStatus();
    MSITD_RETURN_IF_ERROR(context_.folder().MakeFolder(root_, kOuterMode));
    MSITD_RETURN_IF_ERROR(context_.folder().MakeFolder(folder, kDeviceMode));
    if (tree_text_.empty()) return absl::OkStatus();
    MSITD_ASSIGN_OR_RETURN(
        const auto file,
        context_.folder().Create(
            fmt::format("{}/{}", folder, names::kMsitModelTree), kTextMode));
    MSITD_RETURN_IF_ERROR(file->Write(tree_text_));
    return context_.Commit(*file);
  }

  absl::Status AddStatistics(const v1::Tensor& record,
                             const std::string& folder, std::string_view stem) {
    if (folder != statistics_folder_) {
      MSITD_RETURN_IF_ERROR(EndStatistics());
      MSITD_ASSIGN_OR_RETURN(
          statistics_,
          context_.folder().Create(
              fmt::format("{}/{}", folder, names::kMsitStatistics), kTextMode));
      statistics_folder_ = folder;
      MSITD_RETURN_IF_ERROR(statistics_->Write(MsitStatisticsHeader()));
    }
    std::string_view type = tree_.TypeOf(record.op());
    // Rows of APIs have the class of the model.
    if (type.empty() && !tree_.modules.empty()) type = tree_.modules[0].type;
    return statistics_->Write(MsitStatisticsLine(record, stem, type));
  }

  absl::Status EndStatistics() {
    statistics_folder_.clear();
    const auto file = std::exchange(statistics_, nullptr);
    return file == nullptr ? absl::OkStatus() : context_.Commit(*file);
  }

  ExportContext& context_;
  const std::string root_;
  // The tree of the rank.
  ModuleTree tree_;
  std::string tree_text_;
  std::set<std::string> devices_;
  int64_t token_ = 0;
  // For the current token, by device: the folders of ops and the last sequence
  // of each.
  std::map<std::string, std::map<std::string, int64_t>> ends_;
  // An output that may be the only one of its op.
  std::optional<v1::Tensor> pending_;
  // The statistics.csv of the op that is being written.
  std::string statistics_folder_;
  std::unique_ptr<OutputFile> statistics_;
};

}  // namespace

std::unique_ptr<Layout> MakeMsitLayout(ExportContext& context) {
  return std::make_unique<MsitLayout>(context);
}

}  // namespace msitd::write
