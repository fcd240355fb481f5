// SPDX-License-Identifier: Apache-2.0
#include "tests/unit/daemon/compare/generated_run.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <optional>
#include <set>
#include <span>

#include "protos/base/shape.h"
#include "protos/compute/digest.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

using storage::Coordinate;
using storage::PartInfo;
using storage::RunInfo;
using storage::TensorInfo;

// Generates the data of runs on request.
class Generator {
 public:
  explicit Generator(const GeneratedSpec& spec) : spec_(spec) {
    for (size_t i = 0; i < spec_.ops.size(); ++i) {
      const GeneratedSpec::Op& op = spec_.ops[i];
      TensorInfo& one = templates_.emplace_back();
      one.key.op = op.name;
      one.key.io = Io::kOutput;
      one.key.index = "0";
      one.dtype = DType::kFloat32;
      one.shape = op.shape;
      one.tensor_bytes = ElementCount(op.shape) * sizeof(float);
      one.sequence = i;
      one.has_bytes = true;
      one.placement = op.placement;
      one.parts.emplace_back().bytes = one.tensor_bytes;
    }
  }

  const GeneratedSpec& spec() const { return spec_; }

  std::string DeviceOf(int32_t rank) const {
    return spec_.has_devices ? "npu:" + std::to_string(rank % 8) : "npu:0";
  }

  std::vector<float> ValuesOf(size_t op, int32_t rank) const {
    const auto found = spec_.values.find({op, rank});
    const int32_t part = spec_.ops[op].is_copy ? 0 : rank;
    const float value =
        found != spec_.values.end()
            ? found->second
            : static_cast<float>(op) + static_cast<float>(part) / 1024;
    return std::vector<float>(ElementCount(spec_.ops[op].shape), value);
  }

  void Make(size_t op, int32_t rank, int64_t token, TensorInfo& out) const {
    out = templates_[op];
    out.key.rank = rank;
    out.key.device = DeviceOf(rank);
    out.key.token = token;
    const std::vector<float> values = ValuesOf(op, rank);
    const Digest digest =
        compute::DigestPart(std::as_bytes(std::span(values)), DType::kFloat32);
    out.summary = digest.summary;
    out.hash = digest.hash;
    PartInfo& part = out.parts.front();
    part.place = {op, static_cast<uint64_t>(rank)};
    part.hash = digest.hash;
  }

 private:
  const GeneratedSpec spec_;
  std::vector<TensorInfo> templates_;
};

class GeneratedScan final : public storage::TensorScan {
 public:
  GeneratedScan(const Generator& generator, Selector selector)
      : generator_(generator), selector_(std::move(selector)) {
    const GeneratedSpec& spec = generator_.spec();
    for (size_t i = 0; i < spec.ops.size(); ++i) {
      if (selector_.HasOp(spec.ops[i].name) &&
          selector_.HasKind(RecordKind::kTensor) &&
          selector_.HasIo(Io::kOutput)) {
        ops_.push_back(i);
      }
    }
    for (int64_t i = 0; i < spec.token_count; ++i) {
      if (selector_.HasToken(i * spec.token_step)) {
        tokens_.push_back(i * spec.token_step);
      }
    }
  }

  absl::StatusOr<bool> Next(TensorInfo& out, storage::StopCheck stop) override {
    while (rank_ < generator_.spec().rank_count) {
      const bool is_selected = selector_.HasRank(rank_) &&
                               selector_.HasDevice(generator_.DeviceOf(rank_));
      if (!is_selected || ops_.empty() || token_ == tokens_.size()) {
        ++rank_;
        token_ = op_ = 0;
        MSITD_RETURN_IF_ERROR(stop());
        continue;
      }
      generator_.Make(ops_[op_], rank_, tokens_[token_], out);
      if (++op_ == ops_.size()) {
        op_ = 0;
        ++token_;
      }
      return true;
    }
    return false;
  }

  std::string position() const override { return ""; }
  uint64_t incomplete_count() const override { return 0; }

 private:
  const Generator& generator_;
  const Selector selector_;
  std::vector<size_t> ops_;
  std::vector<int64_t> tokens_;
  int32_t rank_ = 0;
  size_t token_ = 0;
  size_t op_ = 0;
};

class GeneratedRun final : public storage::RunReader {
 public:
  explicit GeneratedRun(const GeneratedSpec& spec) : generator_(spec) {}

  const std::string& name() const override { return spec().name; }

  absl::StatusOr<RunInfo> GetInfo() override {
    RunInfo out;
    out.spec.name = spec().name;
    out.spec.world_size = spec().rank_count;
    out.sealed = true;
    out.counters.tensor_count = static_cast<uint64_t>(spec().rank_count) *
                                static_cast<uint64_t>(spec().token_count) *
                                spec().ops.size();
    return out;
  }

  absl::StatusOr<std::vector<storage::RankCoverage>> ListCoverage() override {
    return std::vector<storage::RankCoverage>();
  }

  absl::StatusOr<std::vector<int32_t>> ListRanks() override {
    std::vector<int32_t> out;
    for (int32_t i = 0; i < spec().rank_count; ++i) out.push_back(i);
    return out;
  }

  absl::StatusOr<std::vector<Coordinate>> ListCoordinates(
      const Selector& /*selector*/) override {
    return absl::InternalError("they do not fit into memory");
  }

  absl::Status VisitCoordinates(
      const Selector& selector,
      absl::FunctionRef<absl::Status(const Coordinate&)> visit) override {
    Coordinate at;
    for (at.rank = 0; at.rank < spec().rank_count; ++at.rank) {
      at.device = generator_.DeviceOf(at.rank);
      if (!selector.HasRank(at.rank) || !selector.HasDevice(at.device)) {
        continue;
      }
      for (int64_t i = 0; i < spec().token_count; ++i) {
        at.token = i * spec().token_step;
        if (selector.HasToken(at.token)) MSITD_RETURN_IF_ERROR(visit(at));
      }
    }
    return absl::OkStatus();
  }

  absl::StatusOr<std::vector<std::string>> ListPlacements() override {
    std::set<std::string> out;
    for (const GeneratedSpec::Op& op : spec().ops) out.insert(op.placement);
    out.erase("");
    return std::vector<std::string>(out.begin(), out.end());
  }

  absl::StatusOr<std::unique_ptr<storage::TensorScan>> Scan(
      Selector selector, std::string_view /*position*/) override {
    return std::make_unique<GeneratedScan>(generator_, std::move(selector));
  }

  absl::StatusOr<TensorInfo> GetTensor(const TensorKey& key) override {
    for (size_t i = 0; i < spec().ops.size(); ++i) {
      if (spec().ops[i].name != key.op) continue;
      TensorInfo out;
      generator_.Make(i, key.rank, key.token, out);
      return out;
    }
    return absl::NotFoundError("no such tensor");
  }

  absl::StatusOr<std::span<const std::byte>> ReadPart(
      const PartInfo& part, AlignedBuffer& buffer) override {
    const std::vector<float> values = generator_.ValuesOf(
        part.place.file, static_cast<int32_t>(part.place.offset));
    if (buffer.size() < part.bytes) buffer = AlignedBuffer(part.bytes);
    std::memcpy(buffer.span().data(), values.data(), part.bytes);
    return buffer.span().first(part.bytes);
  }

  std::unique_ptr<storage::PartBatch> ReadParts(
      std::span<const PartInfo> parts, AlignedBuffer& /*buffer*/) override {
    return std::make_unique<Batch>(*this, parts);
  }

  absl::StatusOr<std::span<const std::byte>> ReadSample(
      const TensorInfo& /*tensor*/, size_t /*part*/,
      AlignedBuffer& /*buffer*/) override {
    return absl::UnimplementedError("no samples");
  }

 private:
  class Batch final : public storage::PartBatch {
   public:
    Batch(GeneratedRun& run, std::span<const PartInfo> parts)
        : run_(run), parts_(parts), buffers_(parts.size()) {}

    size_t size() const override { return parts_.size(); }
    absl::StatusOr<std::span<const std::byte>> Read(size_t index) override {
      return run_.ReadPart(parts_[index], buffers_[index]);
    }

   private:
    GeneratedRun& run_;
    const std::span<const PartInfo> parts_;
    std::vector<AlignedBuffer> buffers_;
  };

  const GeneratedSpec& spec() const { return generator_.spec(); }

  const Generator generator_;
};

}  // namespace

std::unique_ptr<storage::RunReader> MakeGeneratedRun(
    const GeneratedSpec& spec) {
  return std::make_unique<GeneratedRun>(spec);
}

absl::StatusOr<std::unique_ptr<storage::RunReader>> GeneratedRuns::OpenRun(
    std::string_view name) {
  for (const GeneratedSpec& spec : specs_) {
    if (spec.name == name) return MakeGeneratedRun(spec);
  }
  return absl::NotFoundError("no such run");
}

}  // namespace msitd::compare
