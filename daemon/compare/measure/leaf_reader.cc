// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/leaf_reader.h"

#include <fmt/format.h>

#include <optional>
#include <utility>

#include "daemon/compare/measure/shard_reader.h"
#include "protos/base/dtype.h"
#include "protos/base/limits.h"
#include "protos/status/status.h"

namespace msitd::compare {
namespace {

absl::Status NoSuchElement(const TensorSource& source, uint64_t element) {
  return MakeStatus(absl::StatusCode::kDataLoss,
                    "{} tensor: it has no element {}", source.side, element);
}

// A tensor of one rank. Any of its parts can be read.
class PartLeaf final : public LeafReader {
 public:
  PartLeaf(const TensorSource& source, WorkObserver& observer)
      : source_(source),
        observer_(observer),
        reader_(fmt::format("{} tensor", source.side), source.shards.front(),
                *source.run, observer, buffer_, {}),
        width_(ElementBytes(source.shards.front().dtype)) {
    if (source.ahead.batch != nullptr) reader_.TakeAhead(source.ahead);
  }

  absl::Status Check() const { return reader_.CheckParts(); }

  DType dtype() const override { return source_.shards.front().dtype; }

  absl::StatusOr<Block> At(uint64_t element) override {
    const uint64_t part = element * width_ / kPartBytes;
    if (part >= source_.shards.front().parts.size()) {
      return NoSuchElement(source_, element);
    }
    if (part_ != part) {
      MSITD_RETURN_IF_ERROR(observer_.Check());
      part_.reset();
      MSITD_ASSIGN_OR_RETURN(bytes_, reader_.ReadPart(part));
      part_ = part;
    }
    const uint64_t begin = part * (kPartBytes / width_);
    if (element - begin >= bytes_.size() / width_) {
      return NoSuchElement(source_, element);
    }
    return Block{begin, bytes_};
  }

 private:
  const TensorSource& source_;
  WorkObserver& observer_;
  AlignedBuffer buffer_;
  ShardReader reader_;
  const uint64_t width_;
  std::optional<uint64_t> part_;  // The part that `bytes_` has.
  std::span<const std::byte> bytes_;
};

// A tensor that is put together from shards, which can only be read in order.
class StreamLeaf final : public LeafReader {
 public:
  StreamLeaf(const TensorSource& source, WorkObserver& observer)
      : source_(source), observer_(observer) {}

  absl::Status Open() {
    MSITD_ASSIGN_OR_RETURN(stream_,
                           TensorStream::Open(source_, observer_, buffers_));
    begin_ = end_ = 0;
    return absl::OkStatus();
  }

  DType dtype() const override { return stream_->dtype(); }

  absl::StatusOr<Block> At(uint64_t element) override {
    if (element >= stream_->element_count()) {
      return NoSuchElement(source_, element);
    }
    if (element < begin_) MSITD_RETURN_IF_ERROR(Open());
    while (element >= end_) {
      MSITD_RETURN_IF_ERROR(observer_.Check());
      MSITD_RETURN_IF_ERROR(stream_->Fill());
      const uint64_t count = stream_->rest_count();
      if (count == 0) return NoSuchElement(source_, element);
      bytes_ = stream_->Take(count);
      begin_ = end_;
      end_ += count;
    }
    return Block{begin_, bytes_};
  }

 private:
  const TensorSource& source_;
  WorkObserver& observer_;
  StreamBuffers buffers_;
  std::unique_ptr<TensorStream> stream_;
  // The elements that `bytes_` has.
  uint64_t begin_ = 0;
  uint64_t end_ = 0;
  std::span<const std::byte> bytes_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<LeafReader>> LeafReader::Open(
    const TensorSource& source, WorkObserver& observer) {
  if (source.shards.size() == 1 && !source.grid.is_sum) {
    auto out = std::make_unique<PartLeaf>(source, observer);
    MSITD_RETURN_IF_ERROR(out->Check());
    return out;
  }
  auto out = std::make_unique<StreamLeaf>(source, observer);
  MSITD_RETURN_IF_ERROR(out->Open());
  return out;
}

}  // namespace msitd::compare
