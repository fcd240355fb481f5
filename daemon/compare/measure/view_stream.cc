// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/view_stream.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "daemon/compare/measure/gather_reader.h"
#include "daemon/compare/measure/leaf_reader.h"
#include "daemon/compare/view/view_plan.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/compute/digest.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr uint64_t kBlock = compute::PairAccumulator::kPairBlockElements;
static_assert(kViewPieceBytes / 16 % kBlock == 0);
static_assert(kViewPieceBytesMax / 16 % kBlock == 0);

using Piece = std::span<const std::byte>;

// Adds elements of type `dtype` to `sum`, or stores them if they are the first.
template <typename T>
void AddTerm(DType dtype, std::span<const std::byte> raw, bool is_first,
             T* sum) {
  std::array<double, kBlock> values;
  const size_t width = ElementBytes(dtype);
  const size_t count = raw.size() / width;
  for (size_t begin = 0; begin < count; begin += kBlock) {
    const size_t n = std::min<size_t>(count - begin, kBlock);
    compute::ToDouble(dtype, raw.data() + begin * width, n, values.data());
    for (size_t i = 0; i < n; ++i) {
      const T value = static_cast<T>(values[i]);
      sum[begin + i] = is_first ? value : sum[begin + i] + value;
    }
  }
}

class ViewStream final : public TensorStream {
 public:
  ViewStream(const TensorSource& source,
             std::vector<std::unique_ptr<LeafReader>> leaves,
             AlignedBuffer& buffer)
      : TensorStream(source.view->dtype, CountOf(source)),
        plan_(*source.view),
        is_summarized_(source.is_summarized || source.is_sampled),
        step_(source.is_sampled ? SampleStep(ElementCount(plan_.shape)) : 1),
        leaves_(std::move(leaves)) {
    uint64_t width = ElementBytes(dtype());
    for (size_t i = 0; i < plan_.terms.size(); ++i) {
      const uint64_t term_width = ElementBytes(plan_.term_dtypes[i]);
      readers_.emplace_back(plan_.terms[i], leaves_, term_width);
      width = std::max(width, term_width);
    }
    piece_elements_ = std::min(PieceBytes(source) / width, element_count());
    if (source.is_sampled) piece_elements_ = element_count();
    const uint64_t bytes = AlignUp(piece_elements_ * width, 64);
    const uint64_t room = plan_.is_sum() ? 2 * bytes : bytes;
    if (buffer.size() < room) buffer = AlignedBuffer(room);
    piece_ = buffer.span().first(bytes);
    if (plan_.is_sum()) raw_ = buffer.span().subspan(bytes, bytes);
  }

 private:
  static uint64_t CountOf(const TensorSource& source) {
    const uint64_t count = ElementCount(source.view->shape);
    return source.is_sampled ? SampleCount(count) : count;
  }

  static uint64_t PieceBytes(const TensorSource& source) {
    const bool is_in_order = std::all_of(
        source.view->terms.begin(), source.view->terms.end(),
        [](const Gather& term) { return term.is_ascending(); });
    // A leaf with a single block is not read again.
    const bool is_small = std::all_of(
        source.leaves.begin(), source.leaves.end(),
        [](const TensorSource& leaf) {
          return leaf.shards.size() == 1 && !leaf.grid.is_sum &&
                 leaf.shards.front().tensor_bytes <= kPartBytes;
        });
    return is_in_order || is_small ? kViewPieceBytes : kViewPieceBytesMax;
  }

  absl::StatusOr<Piece> Next() override {
    const uint64_t count =
        std::min(piece_elements_, element_count() - done_);
    const auto piece = piece_.first(count * ElementBytes(dtype()));
    if (plan_.is_sum()) {
      MSITD_RETURN_IF_ERROR(AddTerms(count, piece));
    } else {
      MSITD_RETURN_IF_ERROR(
          readers_.front().Read(done_ * step_, count, step_, piece));
    }
    done_ += count;
    if (is_summarized_) {
      summary_ = Merge(summary_, compute::Summarize(piece, dtype()));
    }
    return piece;
  }

  absl::Status AddTerms(uint64_t count, std::span<std::byte> sum) {
    for (size_t i = 0; i < readers_.size(); ++i) {
      const DType term = plan_.term_dtypes[i];
      const auto raw = raw_.first(count * ElementBytes(term));
      MSITD_RETURN_IF_ERROR(readers_[i].Read(done_ * step_, count, step_, raw));
      if (dtype() == DType::kFloat64) {
        AddTerm(term, raw, i == 0, reinterpret_cast<double*>(sum.data()));
      } else {
        AddTerm(term, raw, i == 0, reinterpret_cast<float*>(sum.data()));
      }
    }
    return absl::OkStatus();
  }

  const ViewPlan& plan_;
  const bool is_summarized_;
  const uint64_t step_;
  const std::vector<std::unique_ptr<LeafReader>> leaves_;
  std::vector<GatherReader> readers_;  // One for each term.
  uint64_t piece_elements_ = 0;
  std::span<std::byte> piece_;
  std::span<std::byte> raw_;  // A term of a sum.
  uint64_t done_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<TensorStream>> OpenViewStream(
    const TensorSource& source, WorkObserver& observer,
    StreamBuffers& buffers) {
  std::vector<std::unique_ptr<LeafReader>> leaves;
  for (const TensorSource& leaf : source.leaves) {
    MSITD_ASSIGN_OR_RETURN(leaves.emplace_back(),
                           LeafReader::Open(leaf, observer));
  }
  return std::make_unique<ViewStream>(source, std::move(leaves),
                                      buffers.piece);
}

}  // namespace msitd::compare
