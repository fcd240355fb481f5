// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/tensor_stream.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <numeric>
#include <string>
#include <utility>

#include "daemon/compare/shard_reader.h"
#include "daemon/compute/digest.h"
#include "daemon/compute/element.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

constexpr uint64_t kBlock = compute::PairAccumulator::kPairBlockElements;

// Both sides are cut at whole blocks, whatever the element types are: no cut
// changes a bit of the metrics.
static_assert(kPartBytes / 16 % kBlock == 0);

// Elements of one piece of a sum: of 16 bytes they fill a part.
constexpr uint64_t kSumElements = kPartBytes / 16;

using Piece = std::span<const std::byte>;

// A buffer of at least `bytes`.
std::span<std::byte> Room(AlignedBuffer& buffer, uint64_t bytes) {
  if (buffer.size() < bytes) buffer = AlignedBuffer(bytes);
  return buffer.span().first(bytes);
}

// The parts of one recorded tensor, where the store reads them to.
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

// Shards that are joined along a dimension: a row of the dimensions before it
// is a run of bytes of every shard in turn.
class ConcatStream final : public TensorStream {
 public:
  ConcatStream(const std::vector<storage::TensorInfo>& shards, uint64_t bytes,
               std::vector<ShardReader> readers, uint64_t row_count,
               AlignedBuffer& piece)
      : TensorStream(shards.front().dtype,
                     bytes / ElementBytes(shards.front().dtype)),
        readers_(std::move(readers)),
        bytes_(bytes),
        piece_(Room(piece, std::min(bytes, kPartBytes))) {
    run_bytes_.reserve(shards.size());
    for (const storage::TensorInfo& shard : shards) {
      run_bytes_.push_back(row_count == 0 ? 0 : shard.tensor_bytes / row_count);
    }
    run_rest_ = run_bytes_.front();
  }

 private:
  absl::StatusOr<Piece> Next() override {
    const std::span<std::byte> piece =
        piece_.first(std::min(bytes_ - done_, kPartBytes));
    std::span<std::byte> rest = piece;
    while (!rest.empty()) {
      while (run_rest_ == 0) {
        shard_ = (shard_ + 1) % readers_.size();
        run_rest_ = run_bytes_[shard_];
      }
      const auto run = rest.first(std::min<uint64_t>(rest.size(), run_rest_));
      MSITD_RETURN_IF_ERROR(readers_[shard_].Read(run));
      run_rest_ -= run.size();
      rest = rest.subspan(run.size());
    }
    done_ += piece.size();
    return piece;
  }

  std::vector<ShardReader> readers_;
  std::vector<uint64_t> run_bytes_;
  const uint64_t bytes_;
  const std::span<std::byte> piece_;
  uint64_t done_ = 0;
  size_t shard_ = 0;
  uint64_t run_rest_ = 0;
};

DType SumDType(DType shard) {
  if (IsComplex(shard)) return shard;
  const bool is_wide = shard == DType::kFloat64 || !IsFloatingPoint(shard);
  return is_wide ? DType::kFloat64 : DType::kFloat32;
}

// Shards that are added in their order, in the precision of the sum.
class SumStream final : public TensorStream {
 public:
  SumStream(const storage::TensorInfo& shard, std::vector<ShardReader> readers,
            AlignedBuffer& piece)
      : TensorStream(SumDType(shard.dtype),
                     shard.tensor_bytes / ElementBytes(shard.dtype)),
        readers_(std::move(readers)),
        component_(compute::ComponentOf(shard.dtype)),
        component_count_(IsComplex(shard.dtype) ? 2 : 1) {
    const uint64_t elements = std::min(element_count(), kSumElements);
    const uint64_t sum_bytes = AlignUp(elements * ElementBytes(dtype()), 64);
    const uint64_t raw_bytes = elements * ElementBytes(shard.dtype);
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
      if (compute::ComponentOf(dtype()) == DType::kFloat32) {
        Add<float>(raw, components, i == 0);
      } else {
        Add<double>(raw, components, i == 0);
      }
    }
    done_ += elements;
    const Piece piece = sum_.first(elements * ElementBytes(dtype()));
    summary_ = Merge(summary_, compute::Summarize(piece, dtype()));
    return piece;
  }

  template <typename T>
  void Add(Piece raw, uint64_t count, bool is_first) {
    std::array<double, kBlock> values;
    T* const sum = reinterpret_cast<T*>(sum_.data());
    for (uint64_t begin = 0; begin < count; begin += kBlock) {
      const size_t n = std::min(count - begin, kBlock);
      compute::ToDouble(component_,
                        raw.data() + begin * ElementBytes(component_), n,
                        values.data());
      for (size_t i = 0; i < n; ++i) {
        const T value = static_cast<T>(values[i]);
        sum[begin + i] = is_first ? value : sum[begin + i] + value;
      }
    }
  }

  std::vector<ShardReader> readers_;
  const DType component_;
  const uint64_t component_count_;
  std::span<std::byte> sum_;
  std::span<std::byte> raw_;
  uint64_t done_ = 0;
};

// How many runs every shard is cut into.
uint64_t RowCount(const TensorSource& source) {
  const std::vector<int64_t>& shape = source.shards.front().shape;
  MSITD_CHECK(source.dim >= 0 &&
              static_cast<size_t>(source.dim) < shape.size());
  return std::accumulate(shape.begin(), shape.begin() + source.dim, uint64_t{1},
                         [](uint64_t product, int64_t dim) {
                           return product * static_cast<uint64_t>(dim);
                         });
}

std::string LabelOf(const TensorSource& source,
                    const storage::TensorInfo& shard) {
  if (source.shards.size() == 1) return fmt::format("{} tensor", source.side);
  return fmt::format("{} tensor, rank {}", source.side, shard.key.rank);
}

}  // namespace

absl::StatusOr<std::unique_ptr<TensorStream>> TensorStream::Open(
    const TensorSource& source, storage::ChunkStore& store,
    ComparisonObserver& observer, StreamBuffers& buffers) {
  const std::vector<storage::TensorInfo>& shards = source.shards;
  MSITD_CHECK(!shards.empty());
  const bool is_sum = source.kind == TensorSource::Kind::kSum;
  const bool is_alone = shards.size() == 1 && !is_sum;
  const uint64_t row_count = is_sum || is_alone ? 1 : RowCount(source);
  const bool is_interleaved = is_sum || row_count > 1;
  if (is_interleaved && shards.size() > kInterleavedShardsMax) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "{} tensor: {} shards, at most {} unless they are joined "
                      "along the first dimension",
                      source.side, shards.size(), kInterleavedShardsMax);
  }
  uint64_t bytes = 0;
  uint64_t largest = 0;
  for (const storage::TensorInfo& shard : shards) {
    bytes += shard.tensor_bytes;
    largest = std::max(largest, shard.tensor_bytes);
  }
  // Shards that are read one after the other take turns with one window.
  const uint64_t window_count = is_interleaved ? shards.size() : 1;
  const uint64_t window_bytes =
      std::min({largest, kPartBytes, kAssemblyWindowBytesMax / window_count});
  const std::span<std::byte> windows =
      is_alone ? std::span<std::byte>()
               : Room(buffers.windows, window_count * window_bytes);
  std::vector<ShardReader> readers;
  readers.reserve(shards.size());
  for (size_t i = 0; i < shards.size(); ++i) {
    const auto window =
        is_alone
            ? windows
            : windows.subspan((i % window_count) * window_bytes, window_bytes);
    readers.emplace_back(LabelOf(source, shards[i]), shards[i], store, observer,
                         buffers.part, window);
    MSITD_RETURN_IF_ERROR(readers.back().CheckParts());
  }
  if (is_sum) {
    return std::make_unique<SumStream>(shards.front(), std::move(readers),
                                       buffers.piece);
  }
  if (is_alone) {
    return std::make_unique<PartStream>(shards.front(), readers.front());
  }
  return std::make_unique<ConcatStream>(shards, bytes, std::move(readers),
                                        row_count, buffers.piece);
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
