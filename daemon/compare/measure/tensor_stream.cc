// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/tensor_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/numeric/int128.h"
#include "daemon/compare/measure/grid_reader.h"
#include "daemon/compare/measure/joined_sample.h"
#include "daemon/compare/measure/shard_reader.h"
#include "daemon/compare/measure/view_stream.h"
#include "protos/base/check.h"
#include "protos/base/sample.h"
#include "protos/compute/digest.h"
#include "protos/compute/number/element.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

// Each source has its own kind of stream:
// - The parts of a single recorded tensor are returned in the buffer of the
//   store, without a copy.
// - Shards are joined in the order of the whole by one GridReader for each
//   term, in pieces as large as a part.
// - The terms of a sum are read piece by piece and added.
// - A sample is small and is returned as a single piece.
// - A view copies its pieces from the streams and parts of its leaves.
//
// Each stream has at most one piece, the part that is being read and the
// windows of its shards in memory. Memory therefore does not grow with the
// tensor.

constexpr uint64_t kBlock = compute::PairAccumulator::kPairBlockElements;

// Pieces end at whole blocks for all element types, so that metrics are equal
// bit by bit for all sizes of pieces.
static_assert(kPartBytes / 16 % kBlock == 0);

// Number of elements in a piece of a sum. Elements of 16 bytes fill a part.
constexpr uint64_t kSumElements = kPartBytes / 16;

using Piece = std::span<const std::byte>;

// Returns the first `bytes` of the buffer, which grows if necessary.
std::span<std::byte> Room(AlignedBuffer& buffer, uint64_t bytes) {
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  return buffer.span().first(bytes);
}

// The parts of one recorded tensor, without a copy.
class PartStream final : public TensorStream {
 public:
  PartStream(const storage::TensorInfo& tensor, ShardReader reader)
      : TensorStream(tensor.dtype,
                     tensor.tensor_bytes / ElementBytes(tensor.dtype)),
        reader_(reader) {}

 private:
  absl::StatusOr<Piece> Next() override { return reader_.ReadPart(next_++); }

  ShardReader reader_;
  size_t next_ = 0;
};

// The sample of one recorded tensor as a single piece.
class SampleStream final : public TensorStream {
 public:
  SampleStream(const storage::TensorInfo& tensor, ShardReader reader,
               AlignedBuffer& piece)
      : TensorStream(tensor.dtype, SampleCount(tensor.tensor_bytes /
                                               ElementBytes(tensor.dtype))),
        reader_(std::move(reader)),
        part_count_(tensor.parts.size()),
        piece_(Room(piece, element_count() * ElementBytes(tensor.dtype))) {}

 private:
  absl::StatusOr<Piece> Next() override {
    size_t done = 0;
    for (size_t i = 0; i < part_count_; ++i) {
      MSITD_ASSIGN_OR_RETURN(const Piece sample, reader_.ReadSample(i));
      MSITD_CHECK(sample.size() <= piece_.size() - done);
      std::copy(sample.begin(), sample.end(), piece_.begin() + done);
      done += sample.size();
    }
    MSITD_CHECK(done == piece_.size());
    summary_ = compute::Summarize(piece_, dtype());
    return piece_;
  }

  ShardReader reader_;
  const size_t part_count_;
  const std::span<std::byte> piece_;
};

// The concatenated shards of a grid, in row-major order of the whole.
class ConcatStream final : public TensorStream {
 public:
  ConcatStream(DType dtype, uint64_t bytes, GridReader reader,
               AlignedBuffer& piece)
      : TensorStream(dtype, bytes / ElementBytes(dtype)),
        reader_(std::move(reader)),
        bytes_(bytes),
        piece_(Room(piece, std::min(bytes, kPartBytes))) {}

 private:
  absl::StatusOr<Piece> Next() override {
    const std::span<std::byte> piece =
        piece_.first(std::min(bytes_ - done_, kPartBytes));
    MSITD_RETURN_IF_ERROR(reader_.Read(piece));
    done_ += piece.size();
    return piece;
  }

  GridReader reader_;
  const uint64_t bytes_;
  const std::span<std::byte> piece_;
  uint64_t done_ = 0;
};

bool IsInteger(DType dtype) {
  return !IsFloatingPoint(dtype) && !IsComplex(dtype);
}

struct Term {
  DType component;
  Piece raw;
  uint64_t component_count;
  bool is_first;
};

// Holds sums of 64-bit integers without overflow. Only the result has to be
// checked against the range of its type.
using WideInteger = absl::int128;

// Memory for one element of a sum while terms are added.
uint64_t SumBytes(DType sum) {
  return IsInteger(sum) ? sizeof(WideInteger) : ElementBytes(sum);
}

template <typename T>
void AddTermAs(const Term& term, T* sum) {
  std::array<double, kBlock> values;
  for (uint64_t begin = 0; begin < term.component_count; begin += kBlock) {
    const size_t n = std::min(term.component_count - begin, kBlock);
    compute::ToDouble(term.component,
                      term.raw.data() + begin * ElementBytes(term.component), n,
                      values.data());
    for (size_t i = 0; i < n; ++i) {
      const T value = static_cast<T>(values[i]);
      sum[begin + i] = term.is_first ? value : sum[begin + i] + value;
    }
  }
}

template <typename Int>
void AddWideIntegers(const Term& term, WideInteger* sum) {
  for (uint64_t i = 0; i < term.component_count; ++i) {
    Int value;
    std::memcpy(&value, term.raw.data() + i * sizeof(Int), sizeof(Int));
    sum[i] = term.is_first ? WideInteger(value) : sum[i] + value;
  }
}

// Adds a term to `sum`, or stores it if it is the first term. `dtype` is the
// type of the sum. While terms are added, an element of `sum` takes SumBytes.
void AddTerm(const Term& term, DType dtype, std::span<std::byte> sum) {
  auto* const integers = reinterpret_cast<WideInteger*>(sum.data());
  if (term.component == DType::kInt64) {
    AddWideIntegers<int64_t>(term, integers);
  } else if (term.component == DType::kUint64) {
    AddWideIntegers<uint64_t>(term, integers);
  } else if (IsInteger(dtype)) {
    // Integers of up to 32 bits are exact in double.
    AddTermAs(term, integers);
  } else if (compute::ComponentOf(dtype) == DType::kFloat32) {
    AddTermAs(term, reinterpret_cast<float*>(sum.data()));
  } else {
    AddTermAs(term, reinterpret_cast<double*>(sum.data()));
  }
}

template <typename Int>
absl::Status NarrowAs(uint64_t first, uint64_t count, std::string_view side,
                      DType dtype, std::byte* sum) {
  for (uint64_t i = 0; i < count; ++i) {
    WideInteger value;
    std::memcpy(&value, sum + i * sizeof(value), sizeof(value));
    if (value < std::numeric_limits<Int>::min() ||
        value > std::numeric_limits<Int>::max()) {
      return MakeStatus(absl::StatusCode::kOutOfRange,
                        "{} tensor: the sum of its shards is beyond {} at "
                        "element {}",
                        side, DTypeName(dtype), first + i);
    }
    const auto narrow = static_cast<Int>(value);
    std::memcpy(sum + i * sizeof(narrow), &narrow, sizeof(narrow));
  }
  return absl::OkStatus();
}

// Converts sums of integers to elements of type `dtype`. Does not change
// floats. `first` is the number of the first element in the tensor, for errors.
absl::Status FinishSums(uint64_t first, uint64_t count, std::string_view side,
                        DType dtype, std::span<std::byte> sum) {
  if (dtype == DType::kInt64) {
    return NarrowAs<int64_t>(first, count, side, dtype, sum.data());
  }
  if (dtype == DType::kUint64) {
    return NarrowAs<uint64_t>(first, count, side, dtype, sum.data());
  }
  return absl::OkStatus();
}

// The sum of terms, added in their order in the precision of the sum.
class SumStream final : public TensorStream {
 public:
  SumStream(std::string_view side, DType term, uint64_t term_bytes,
            std::vector<GridReader> readers, AlignedBuffer& piece)
      : TensorStream(SumDType(term), term_bytes / ElementBytes(term)),
        side_(side),
        readers_(std::move(readers)),
        component_(compute::ComponentOf(term)),
        component_count_(IsComplex(term) ? 2 : 1) {
    const uint64_t elements = std::min(element_count(), kSumElements);
    const uint64_t sum_bytes = AlignUp(elements * SumBytes(dtype()), 64);
    const uint64_t raw_bytes = elements * ElementBytes(term);
    const std::span<std::byte> room = Room(piece, sum_bytes + raw_bytes);
    sum_ = room.first(sum_bytes);
    raw_ = room.subspan(sum_bytes);
  }

 private:
  absl::StatusOr<Piece> Next() override {
    const uint64_t elements = std::min(element_count() - done_, kSumElements);
    const uint64_t components = elements * component_count_;
    const auto raw = raw_.first(components * ElementBytes(component_));
    for (size_t i = 0; i < readers_.size(); ++i) {
      MSITD_RETURN_IF_ERROR(readers_[i].Read(raw));
      AddTerm({component_, raw, components, i == 0}, dtype(), sum_);
    }
    MSITD_RETURN_IF_ERROR(FinishSums(done_, elements, side_, dtype(), sum_));
    done_ += elements;
    const Piece piece = sum_.first(elements * ElementBytes(dtype()));
    summary_ = Merge(summary_, compute::Summarize(piece, dtype()));
    return piece;
  }

  const std::string side_;
  std::vector<GridReader> readers_;
  const DType component_;
  const uint64_t component_count_;
  std::span<std::byte> sum_;
  std::span<std::byte> raw_;
  uint64_t done_ = 0;
};

// The sample of a tensor of several shards as a single piece.
class JoinedSampleStream final : public TensorStream {
 public:
  JoinedSampleStream(const TensorSource& source, uint64_t term_bytes,
                     std::vector<ShardReader> readers, WorkObserver& observer,
                     AlignedBuffer& piece)
      : TensorStream(
            source.grid.is_sum ? SumDType(DTypeOf(source)) : DTypeOf(source),
            SampleCount(term_bytes / ElementBytes(DTypeOf(source)))),
        source_(source),
        readers_(std::move(readers)),
        observer_(observer) {
    const uint64_t bytes =
        element_count() *
        (source.grid.is_sum ? SumBytes(dtype()) : ElementBytes(dtype()));
    const uint64_t term = element_count() * ElementBytes(DTypeOf(source));
    const std::span<std::byte> room = Room(piece, AlignUp(bytes, 64) + term);
    room_ = room.first(bytes);
    term_ = source.grid.is_sum ? room.last(term) : room_;
  }

 private:
  static DType DTypeOf(const TensorSource& source) {
    return source.shards.front().dtype;
  }

  absl::StatusOr<Piece> Next() override {
    const DType shard = DTypeOf(source_);
    const size_t per_term = source_.grid.shards_per_term();
    for (size_t begin = 0; begin < readers_.size(); begin += per_term) {
      MSITD_RETURN_IF_ERROR(ReadJoinedSample(
          source_.grid, std::span(source_.shards).subspan(begin, per_term),
          std::span(readers_).subspan(begin, per_term), observer_, term_));
      if (!source_.grid.is_sum) continue;
      const DType component = compute::ComponentOf(shard);
      AddTerm({component, term_, term_.size() / ElementBytes(component),
               begin == 0},
              dtype(), room_);
    }
    if (source_.grid.is_sum) {
      MSITD_RETURN_IF_ERROR(
          FinishSums(0, element_count(), source_.side, dtype(), room_));
    }
    const Piece piece = room_.first(element_count() * ElementBytes(dtype()));
    summary_ = compute::Summarize(piece, dtype());
    return piece;
  }

  const TensorSource& source_;
  std::vector<ShardReader> readers_;
  WorkObserver& observer_;
  std::span<std::byte> room_;
  std::span<std::byte> term_;  // The same memory as `room_`, except for a sum.
};

// Returns whether reading the whole in order alternates between the shards of a
// term, or between terms.
bool IsInterleaved(const TensorSource& source) {
  const std::vector<ShardGrid::Axis>& axes = source.grid.axes;
  if (source.grid.is_sum || axes.size() > 1) return true;
  if (axes.empty()) return false;
  if (!axes.front().sections.empty()) return true;
  const std::vector<int64_t>& shape = source.shards.front().shape;
  MSITD_CHECK(static_cast<size_t>(axes.front().dim) < shape.size());
  return std::any_of(shape.begin(), shape.begin() + axes.front().dim,
                     [](int64_t dim) { return dim > 1; });
}

std::string LabelOf(const TensorSource& source,
                    const storage::TensorInfo& shard) {
  if (source.shards.size() == 1) return fmt::format("{} tensor", source.side);
  return fmt::format("{} tensor, rank {}", source.side, shard.key.rank);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorStream>> TensorStream::Open(
    const TensorSource& source, WorkObserver& observer,
    StreamBuffers& buffers) {
  if (source.view != nullptr) return OpenViewStream(source, observer, buffers);
  const std::vector<storage::TensorInfo>& shards = source.shards;
  const ShardGrid& grid = source.grid;
  const size_t per_term = grid.shards_per_term();
  MSITD_CHECK(!shards.empty() && shards.size() == grid.term_count * per_term);
  const bool is_alone = shards.size() == 1 && !grid.is_sum;
  // Samples are read one shard at a time and need no windows.
  const bool needs_windows = !is_alone && !source.is_sampled;
  const bool is_interleaved = needs_windows && IsInterleaved(source);
  if (is_interleaved && shards.size() > kInterleavedShardsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{} tensor: {} shards, at most {} unless they are joined "
                      "along the first dimension",
                      source.side, shards.size(), kInterleavedShardsMax);
  }
  uint64_t term_bytes = 0;
  uint64_t largest = 0;
  for (size_t i = 0; i < shards.size(); ++i) {
    if (i < per_term) term_bytes += shards[i].tensor_bytes;
    largest = std::max(largest, shards[i].tensor_bytes);
  }
  // Shards that are read one after the other share one window.
  const uint64_t window_count = is_interleaved ? shards.size() : 1;
  const uint64_t window_bytes =
      std::min({largest, kPartBytes, kAssemblyWindowBytesMax / window_count});
  const std::span<std::byte> windows =
      needs_windows ? Room(buffers.windows, window_count * window_bytes)
                    : std::span<std::byte>();
  std::vector<ShardReader> readers;
  readers.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto window =
        needs_windows
            ? windows.subspan((i % window_count) * window_bytes, window_bytes)
            : windows;
    readers.emplace_back(LabelOf(source, shards[i]), shards[i], *source.run,
                         observer, buffers.part, window);
    if (source.ahead.batch != nullptr) {
      readers.back().TakeAhead({source.ahead.batch, source.ahead.first + i});
    }
    MSITD_RETURN_IF_ERROR(readers.back().CheckParts());
  }
  if (source.is_sampled && !is_alone) {
    return std::make_unique<JoinedSampleStream>(
        source, term_bytes, std::move(readers), observer, buffers.piece);
  }
  if (source.is_sampled) {
    return std::make_unique<SampleStream>(shards.front(), readers.front(),
                                          buffers.piece);
  }
  const DType dtype = shards.front().dtype;
  if (is_alone) {
    return std::make_unique<PartStream>(shards.front(), readers.front());
  }
  std::vector<GridReader> terms;
  for (size_t begin = 0; begin < shards.size(); begin += per_term) {
    terms.emplace_back(
        grid, std::span(shards).subspan(begin, per_term),
        std::vector(
            readers.begin() + static_cast<ptrdiff_t>(begin),
            readers.begin() + static_cast<ptrdiff_t>(begin + per_term)));
  }
  if (grid.is_sum) {
    return std::make_unique<SumStream>(source.side, dtype, term_bytes,
                                       std::move(terms), buffers.piece);
  }
  return std::make_unique<ConcatStream>(
      dtype, term_bytes, std::move(terms.front()), buffers.piece);
}

absl::Status TensorStream::Fill() {
  if (!rest_.empty()) return absl::OkStatus();
  MSITD_ASSIGN_OR_RETURN(rest_, Next());
  return absl::OkStatus();
}

std::span<const std::byte> TensorStream::Take(uint64_t elements) {
  const auto out = rest_.first(elements * ElementBytes(dtype_));
  rest_ = rest_.subspan(out.size());
  return out;
}

}  // namespace msitd::compare
