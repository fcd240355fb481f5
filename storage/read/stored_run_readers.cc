// SPDX-License-Identifier: Apache-2.0
#include "storage/read/stored_run_readers.h"

#include <span>
#include <utility>
#include <vector>

#include "protos/status/status.h"
#include "storage/face/runs.h"

namespace msitd::storage {

class StoredRunReaders::Reader final : public RunReader {
 public:
  Reader(StoredRunReaders& runs, RunId id, std::string_view name)
      : index_(runs.index_), parts_(runs.parts_), id_(id), name_(name) {}

  const std::string& name() const override { return name_; }

  absl::StatusOr<RunInfo> GetInfo() override {
    absl::StatusOr<RunInfo> run = index_->runs().GetById(id_);
    if (!run.ok()) return NoLongerThere();
    return run;
  }

  absl::StatusOr<std::vector<RankCoverage>> ListCoverage() override {
    MSITD_RETURN_IF_ERROR(CheckRun());
    return index_->coverage().Ranks(id_);
  }

  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    MSITD_RETURN_IF_ERROR(CheckRun());
    return index_->tensors().ListRanks(id_);
  }

  absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& selector) override {
    std::vector<Coordinate> out;
    MSITD_RETURN_IF_ERROR(
        VisitCoordinates(selector, [&out](const Coordinate& coordinate) {
          out.push_back(coordinate);
          return absl::OkStatus();
        }));
    return out;
  }

  absl::Status VisitCoordinates(
      const Selector& selector,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit) override {
    MSITD_RETURN_IF_ERROR(CheckRun());
    return index_->tensors().VisitCoordinates(id_, selector, visit);
  }

  absl::Status VisitCoordinatesAfter(
      const Selector& selector, const Coordinate& after,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit) override {
    MSITD_RETURN_IF_ERROR(CheckRun());
    return index_->tensors().VisitCoordinates(id_, selector, visit, &after);
  }

  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    MSITD_RETURN_IF_ERROR(CheckRun());
    return index_->placements().List(id_);
  }

  absl::StatusOr<std::unique_ptr<TensorScan>> Scan(
      Selector selector, std::string_view position) override {
    const IndexGate::Use index(index_);
    if (!index->runs().BriefById(id_).ok()) return NoLongerThere();
    MSITD_ASSIGN_OR_RETURN(
        std::unique_ptr<TensorScan> scan,
        index->tensors().Scan({id_, name_}, selector, position));
    return index_.Hold(std::move(scan), id_);
  }

  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override {
    MSITD_RETURN_IF_ERROR(CheckRun());
    TensorKey whole = key;
    whole.run = name_;
    return index_->tensors().Get(id_, whole);
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) override {
    return parts_.Read(id_, part, buffer);
  }

  std::unique_ptr<PartBatch> ReadParts(std::span<const PartInfo> parts,
                                       AlignedBuffer& buffer) override {
    return parts_.ReadBatch(id_, parts, buffer);
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) override {
    return parts_.ReadSample(id_, tensor, part, buffer);
  }

 private:
  absl::Status NoLongerThere() const {
    return WithReason(MakeStatus(absl::StatusCode::kNotFound,
                                 "there is no run {} any more", name_),
                      ErrorReason::kRunNotFound);
  }

  absl::Status CheckRun() const {
    return index_->runs().BriefById(id_).ok() ? absl::OkStatus()
                                              : NoLongerThere();
  }

  IndexGate& index_;
  PartReader& parts_;
  const RunId id_;
  const std::string name_;
};

absl::StatusOr<std::unique_ptr<RunReader>> StoredRunReaders::OpenRun(
    std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, index_->runs().Brief(name));
  if (run.restoring) return RunRestoring(name);
  return std::make_unique<Reader>(*this, run.id, name);
}

absl::StatusOr<std::unique_ptr<RunReader>> StoredRunReaders::OpenRunAsItIs(
    std::string_view name) {
  MSITD_ASSIGN_OR_RETURN(const RunBrief run, index_->runs().Brief(name));
  return std::make_unique<Reader>(*this, run.id, name);
}

}  // namespace msitd::storage
