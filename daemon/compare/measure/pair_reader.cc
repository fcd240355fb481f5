// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/pair_reader.h"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <memory>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/base/thread_annotations.h"
#include "daemon/compare/measure/row_matcher.h"
#include "protos/base/dtype.h"
#include "protos/os/aligned_buffer.h"
#include "protos/status/mutex.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

absl::Status NotEquallyMany(uint64_t targets, DType target_dtype,
                            uint64_t goldens, DType golden_dtype) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "target and golden tensor: {} of {} and {} of {} are not "
                    "equally many elements",
                    targets, DTypeName(target_dtype), goldens,
                    DTypeName(golden_dtype));
}

// Computes all requested metrics in a single pass over the bytes.
class PairPasses {
 public:
  PairPasses(DType target, DType golden, const compute::ElementRequest& request)
      : pairs_(target, golden, request.row_shape()) {
    if (request.sets != 0) elements_.emplace(target, golden, request);
    if (request.closing.has_value()) open_.emplace(target, golden, request);
  }

  void Update(std::span<const std::byte> target,
              std::span<const std::byte> golden) {
    pairs_.Update(target, golden);
    if (elements_.has_value()) elements_->Update(target, golden);
    if (open_.has_value()) open_->Update(target, golden);
  }

  PairMeasurement Finish() const {
    PairMeasurement out;
    out.metrics = pairs_.Finish();
    if (elements_.has_value()) out.elements = elements_->Finish();
    if (open_.has_value()) out.open = open_->Finish();
    if (out.open.has_value()) {
      // Closed positions have no weight in a softmax, so that the divergence of
      // all positions is also that of the open ones.
      constexpr auto kKl = static_cast<size_t>(compute::Metric::kKl);
      out.open->metrics.values[kKl] = out.metrics.values[kKl];
    }
    return out;
  }

 private:
  compute::PairAccumulator pairs_;
  std::optional<compute::ElementAccumulator> elements_;
  std::optional<compute::OpenPairAccumulator> open_;
};

absl::StatusOr<std::span<const std::byte>> ReadAhead(
    const storage::TensorInfo& tensor, std::string_view label,
    const PartsAhead& ahead, WorkObserver& observer) {
  if (!HasAllParts(tensor)) return PartsDoNotFit(tensor, label);
  const auto bytes = ahead.batch->Read(ahead.first);
  if (!bytes.ok()) return Annotate(bytes.status(), label);
  if (bytes->size() != tensor.tensor_bytes) {
    return PartsDoNotFit(tensor, label);
  }
  observer.OnRead(bytes->size());
  return *bytes;
}

// Pairs of fewer bytes are compared in any order by several threads at a time.
constexpr uint64_t kLargePairBytes = uint64_t{64} << 20;

// Admits one thread of the process at a time to compare a large pair in any
// order, so that the memory for such pairs is that of one of them.
class LargePairTurn {
 public:
  LargePairTurn() = default;
  LargePairTurn(const LargePairTurn&) = delete;
  LargePairTurn& operator=(const LargePairTurn&) = delete;
  ~LargePairTurn() {
    if (!is_held_) return;
    const MutexLock lock(mu_);
    is_busy_ = false;
    changed_.NotifyOne();
  }

  // Errors: CANCELLED if the observer ends the comparison.
  absl::Status Await(WorkObserver& observer) {
    while (true) {
      MSITD_RETURN_IF_ERROR(observer.Check());
      const MutexLock lock(mu_);
      if (!is_busy_) {
        is_busy_ = is_held_ = true;
        return absl::OkStatus();
      }
      changed_.WaitUntil(mu_,
                         std::chrono::steady_clock::now() + kQuestionInterval);
    }
  }

 private:
  static inline Mutex mu_;
  static inline CondVar changed_;
  static inline bool is_busy_ ABSL_GUARDED_BY(mu_) = false;
  bool is_held_ = false;
};

// Copies `count` elements of the target, from number `first` of the order that
// `match` gives it.
void CopyMatched(std::span<const std::byte> target, size_t width,
                 const RowSlices& rows, const RowMatch& match, uint64_t first,
                 uint64_t count, std::byte* out) {
  while (count > 0) {
    const uint64_t within = first % rows.inner;
    const uint64_t run = first / rows.inner;
    const uint64_t block = run / rows.count;
    const uint64_t row = match.partners[run % rows.count];
    const uint64_t step = std::min(count, rows.inner - within);
    const uint64_t from = (block * rows.count + row) * rows.inner + within;
    std::memcpy(out, target.data() + from * width, step * width);
    out += step * width;
    first += step;
    count -= step;
  }
}

}  // namespace

struct PairReader::WholeTensor {
  DType dtype = DType::kUnspecified;
  uint64_t element_count = 0;
  AlignedBuffer buffer;
  Summary summary;

  std::span<const std::byte> bytes() const {
    return buffer.span().first(element_count * ElementBytes(dtype));
  }
};

absl::StatusOr<PairReader::WholeTensor> PairReader::ReadWhole(
    const TensorSource& source, StreamBuffers& buffers,
    WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorStream> stream,
                         TensorStream::Open(source, observer, buffers));
  WholeTensor out;
  out.dtype = stream->dtype();
  out.element_count = stream->element_count();
  const size_t width = ElementBytes(out.dtype);
  out.buffer = AlignedBuffer(out.element_count * width);
  for (uint64_t done = 0; done < out.element_count;) {
    MSITD_RETURN_IF_ERROR(observer.Check());
    MSITD_RETURN_IF_ERROR(stream->Fill());
    const auto piece = stream->Take(stream->rest_count());
    std::memcpy(out.buffer.data() + done * width, piece.data(), piece.size());
    done += piece.size() / width;
  }
  out.summary = stream->summary();
  return out;
}

absl::StatusOr<PairMeasurement> PairReader::MeasureInAnyOrder(
    const TensorSource& target, const TensorSource& golden,
    const compute::ElementRequest& request, const AnyOrder& any_order,
    WorkObserver& observer) {
  const RowSlices& rows = any_order.rows;
  LargePairTurn turn;
  if (rows.count * rows.width() * 2 > kLargePairBytes / sizeof(double)) {
    MSITD_RETURN_IF_ERROR(turn.Await(observer));
  }
  auto targets = ReadWhole(target, target_buffers_, observer);
  target_buffers_.ReleasePiece();
  MSITD_RETURN_IF_ERROR(targets.status());
  auto goldens = ReadWhole(golden, golden_buffers_, observer);
  golden_buffers_.ReleasePiece();
  MSITD_RETURN_IF_ERROR(goldens.status());
  const uint64_t count = goldens->element_count;
  if (targets->element_count != count || rows.count * rows.width() != count) {
    return NotEquallyMany(targets->element_count, targets->dtype, count,
                          goldens->dtype);
  }
  MSITD_ASSIGN_OR_RETURN(
      RowMatch match,
      MatchRows({goldens->bytes(), goldens->dtype},
                {targets->bytes(), targets->dtype}, rows, any_order.tolerance,
                [&observer] { return observer.Check(); }));
  PairPasses passes(targets->dtype, goldens->dtype, request);
  constexpr uint64_t kStep = 16 * compute::PairAccumulator::kPairBlockElements;
  const size_t width = ElementBytes(targets->dtype);
  const size_t golden_width = ElementBytes(goldens->dtype);
  std::vector<std::byte> piece(kStep * width);
  for (uint64_t done = 0; done < count;) {
    MSITD_RETURN_IF_ERROR(observer.Check());
    const uint64_t step = std::min(kStep, count - done);
    CopyMatched(targets->bytes(), width, rows, match, done, step, piece.data());
    passes.Update(
        std::span(piece).first(step * width),
        goldens->bytes().subspan(done * golden_width, step * golden_width));
    done += step;
  }
  PairMeasurement out = passes.Finish();
  if (target.has_summary()) out.target_summary = targets->summary;
  if (golden.has_summary()) out.golden_summary = goldens->summary;
  match.partners = {};
  out.rows = std::move(match);
  return out;
}

absl::StatusOr<PairMeasurement> PairReader::Measure(
    const TensorSource& target, const TensorSource& golden,
    const compute::ElementRequest& request, WorkObserver& observer) {
  auto out = MeasureStreams(target, golden, request, observer);
  target_buffers_.ReleasePiece();
  golden_buffers_.ReleasePiece();
  return out;
}

absl::StatusOr<PairMeasurement> PairReader::MeasureStreams(
    const TensorSource& target, const TensorSource& golden,
    const compute::ElementRequest& request, WorkObserver& observer) {
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorStream> targets,
                         TensorStream::Open(target, observer, target_buffers_));
  MSITD_ASSIGN_OR_RETURN(const std::unique_ptr<TensorStream> goldens,
                         TensorStream::Open(golden, observer, golden_buffers_));
  uint64_t elements = targets->element_count();
  if (elements != goldens->element_count()) {
    return NotEquallyMany(elements, targets->dtype(), goldens->element_count(),
                          goldens->dtype());
  }
  PairPasses passes(targets->dtype(), goldens->dtype(), request);
  while (elements > 0) {
    MSITD_RETURN_IF_ERROR(observer.Check());
    MSITD_RETURN_IF_ERROR(targets->Fill());
    MSITD_RETURN_IF_ERROR(goldens->Fill());
    const uint64_t step =
        std::min(targets->rest_count(), goldens->rest_count());
    const auto target_piece = targets->Take(step);
    const auto golden_piece = goldens->Take(step);
    passes.Update(target_piece, golden_piece);
    elements -= step;
  }
  PairMeasurement out = passes.Finish();
  if (target.has_summary()) {
    out.target_summary = targets->summary();
  }
  if (golden.has_summary()) {
    out.golden_summary = goldens->summary();
  }
  return out;
}

absl::StatusOr<PairMeasurement> PairReader::MeasureAhead(
    const storage::TensorInfo& target, const storage::TensorInfo& golden,
    const PairAhead& ahead, const compute::ElementRequest& request,
    WorkObserver& observer) {
  MSITD_RETURN_IF_ERROR(observer.Check());
  MSITD_ASSIGN_OR_RETURN(
      const auto target_bytes,
      ReadAhead(target, "target tensor", ahead.target, observer));
  MSITD_ASSIGN_OR_RETURN(
      const auto golden_bytes,
      ReadAhead(golden, "golden tensor", ahead.golden, observer));
  const uint64_t targets = target_bytes.size() / ElementBytes(target.dtype);
  const uint64_t goldens = golden_bytes.size() / ElementBytes(golden.dtype);
  if (targets != goldens) {
    return NotEquallyMany(targets, target.dtype, goldens, golden.dtype);
  }
  PairPasses passes(target.dtype, golden.dtype, request);
  passes.Update(target_bytes, golden_bytes);
  return passes.Finish();
}

}  // namespace msitd::compare
