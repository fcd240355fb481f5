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

constexpr uint64_t kBlockElements =
    compute::PairAccumulator::kPairBlockElements;
static_assert(kViewPieceBytes / 16 % kBlockElements == 0);
static_assert(kViewPieceBytesMax / 16 % kBlockElements == 0);

using Piece = std::span<const std::byte>;

// How the elements of a term change those of the result.
enum class Effect : uint8_t { kSet, kAdd, kSubtract, kMultiply };

// Combines elements of type `dtype` with those of `out`.
template <typename T>
void Combine(DType dtype, std::span<const std::byte> raw, Effect effect,
             T* out) {
  std::array<double, kBlockElements> values;
  const size_t width = ElementBytes(dtype);
  const size_t count = raw.size() / width;
  for (size_t begin = 0; begin < count;
       begin += kBlockElements, out += kBlockElements) {
    const size_t n = std::min<size_t>(count - begin, kBlockElements);
    compute::ToDouble(dtype, raw.data() + begin * width, n, values.data());
    for (size_t i = 0; i < n; ++i) {
      const T value = static_cast<T>(values[i]);
      switch (effect) {
        case Effect::kSet:
          out[i] = value;
          break;
        case Effect::kAdd:
          out[i] += value;
          break;
        case Effect::kSubtract:
          out[i] -= value;
          break;
        case Effect::kMultiply:
          out[i] *= value;
          break;
      }
    }
  }
}

// Returns the terms in the order in which they are combined. The zero point
// precedes the scales.
std::vector<size_t> OrderOf(const ViewPlan& plan) {
  std::vector<size_t> out = {0};
  if (plan.zero_term != 0) out.push_back(plan.zero_term);
  for (size_t i = 1; i < plan.terms.size(); ++i) {
    if (i != plan.zero_term) out.push_back(i);
  }
  return out;
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
        leaves_(std::move(leaves)),
        order_(OrderOf(plan_)) {
    uint64_t width = ElementBytes(dtype());
    for (size_t i = 0; i < plan_.terms.size(); ++i) {
      const uint64_t term_width = ElementBytes(plan_.term_dtypes[i]);
      readers_.emplace_back(plan_.terms[i], leaves_, term_width, runs_);
      width = std::max(width, term_width);
    }
    piece_elements_ = std::min(PieceBytes(source) / width, element_count());
    if (source.is_sampled) piece_elements_ = element_count();
    const uint64_t bytes = AlignUp(piece_elements_ * width, 64);
    const uint64_t room = plan_.is_computed() ? 2 * bytes : bytes;
    if (buffer.size() < room) buffer = AlignedBuffer(room);
    piece_ = buffer.span().first(bytes);
    if (plan_.is_computed()) raw_ = buffer.span().subspan(bytes, bytes);
  }

 private:
  static uint64_t CountOf(const TensorSource& source) {
    const uint64_t count = ElementCount(source.view->shape);
    return source.is_sampled ? SampleCount(count) : count;
  }

  static uint64_t PieceBytes(const TensorSource& source) {
    // A leaf with a single block is not read again.
    const auto is_small = [](const TensorSource& leaf) {
      return leaf.shards.size() == 1 && !leaf.grid.is_sum &&
             leaf.shards.front().tensor_bytes <= kPartBytes;
    };
    for (const Gather& term : source.view->terms) {
      if (term.is_ascending()) continue;
      for (uint32_t i = 0; i < source.leaves.size(); ++i) {
        if (term.uses(i) && !is_small(source.leaves[i])) {
          return kViewPieceBytesMax;
        }
      }
    }
    return kViewPieceBytes;
  }

  absl::StatusOr<Piece> Next() override {
    const uint64_t count = std::min(piece_elements_, element_count() - done_);
    const auto piece = piece_.first(count * ElementBytes(dtype()));
    if (plan_.is_computed()) {
      MSITD_RETURN_IF_ERROR(ComputeTerms(count, piece));
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

  Effect EffectOf(size_t term) const {
    if (term == 0) return Effect::kSet;
    if (plan_.kind == ViewPlan::Kind::kSum) return Effect::kAdd;
    return term == plan_.zero_term ? Effect::kSubtract : Effect::kMultiply;
  }

  absl::Status ComputeTerms(uint64_t count, std::span<std::byte> out) {
    for (const size_t i : order_) {
      const DType term = plan_.term_dtypes[i];
      const auto raw = raw_.first(count * ElementBytes(term));
      MSITD_RETURN_IF_ERROR(readers_[i].Read(done_ * step_, count, step_, raw));
      if (dtype() == DType::kFloat64) {
        Combine(term, raw, EffectOf(i), reinterpret_cast<double*>(out.data()));
      } else {
        Combine(term, raw, EffectOf(i), reinterpret_cast<float*>(out.data()));
      }
    }
    return absl::OkStatus();
  }

  const ViewPlan& plan_;
  const bool is_summarized_;
  const uint64_t step_;
  const std::vector<std::unique_ptr<LeafReader>> leaves_;
  const std::vector<size_t> order_;    // See OrderOf.
  GatherRuns runs_;                    // Memory of the current reader.
  std::vector<GatherReader> readers_;  // One for each term.
  uint64_t piece_elements_ = 0;
  std::span<std::byte> piece_;
  std::span<std::byte> raw_;  // A term of values that are computed.
  uint64_t done_ = 0;
};

// Verifies that the leaves have the types that the plan states. Elements of
// another width would be read at wrong positions.
absl::Status CheckTypes(
    const TensorSource& source,
    const std::vector<std::unique_ptr<LeafReader>>& leaves) {
  const ViewPlan& plan = *source.view;
  for (size_t i = 0; i < plan.terms.size(); ++i) {
    for (uint32_t j = 0; j < leaves.size(); ++j) {
      const DType dtype = leaves[j]->dtype();
      if (!plan.terms[i].uses(j) || dtype == plan.term_dtypes[i]) continue;
      return MakeStatus(absl::StatusCode::kInternal,
                        "{} tensor: tensor {} of its view is {} and not {}",
                        source.side, j, DTypeName(dtype),
                        DTypeName(plan.term_dtypes[i]));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorStream>> OpenViewStream(
    const TensorSource& source, WorkObserver& observer,
    StreamBuffers& buffers) {
  std::vector<std::unique_ptr<LeafReader>> leaves;
  for (const TensorSource& leaf : source.leaves) {
    MSITD_ASSIGN_OR_RETURN(leaves.emplace_back(),
                           LeafReader::Open(leaf, observer));
  }
  MSITD_RETURN_IF_ERROR(CheckTypes(source, leaves));
  return std::make_unique<ViewStream>(source, std::move(leaves), buffers.piece);
}

}  // namespace msitd::compare
