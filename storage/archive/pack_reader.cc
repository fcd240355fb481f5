// SPDX-License-Identifier: Apache-2.0
#include "storage/archive/pack_reader.h"

#include <algorithm>
#include <numeric>
#include <utility>
#include <vector>

#include "protos/base/check.h"
#include "protos/base/limits.h"
#include "protos/base/sample.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/archive/archive_error.h"

namespace msitd::storage {
namespace {

absl::Status NotKept(const PartInfo& part) {
  const PartPlace received = ReceivedPlace(part.place);
  return WithReason(
      MakeStatus(absl::StatusCode::kNotFound,
                 "the archive has no bytes of what lay in segment {} at offset "
                 "{}: they were given up before",
                 received.file, received.offset),
      ErrorReason::kTensorExpired);
}

absl::Status Unreadable(const PartInfo& part) {
  const PartPlace received = ReceivedPlace(part.place);
  return WithReason(
      MakeStatus(absl::StatusCode::kDataLoss,
                 "the archive has no bytes of what lay in segment {} at offset "
                 "{}: they could not be read when the run was archived",
                 received.file, received.offset),
      ErrorReason::kFrameCorrupt);
}

// Sets the location of the bytes of a part that has some.
absl::Status FindPackPlace(const PartInfo& part, PackPlace& out) {
  const ArchivedBytes bytes = FindArchivedBytes(part.place);
  out = bytes.place;
  switch (bytes.state) {
    case PackedBytes::kNone:
      return NotKept(part);
    case PackedBytes::kUnreadable:
      return Unreadable(part);
    case PackedBytes::kPacked:
      break;
  }
  return absl::OkStatus();
}

}  // namespace

// One request covers parts that are close to each other; several requests are
// in flight.
class PackReader::Batch final : public PartBatch {
 public:
  Batch(PackReader& reader, std::span<const PartInfo> parts,
        AlignedBuffer& buffer)
      : reader_(reader), parts_(Fitting(parts)), places_(parts_.size()) {
    Plan(buffer);
    statuses_.resize(reads_.size());
    job_.emplace(reader_.pool_, reads_.size(), [this](size_t i) { Do(i); });
  }

  size_t size() const override { return parts_.size(); }

  absl::StatusOr<std::span<const std::byte>> Read(size_t index) override {
    const PartInfo& part = parts_[index];
    PackPlace place;
    if (!part.has_bytes) return NotKept(part);
    MSITD_RETURN_IF_ERROR(FindPackPlace(part, place));
    if (part.bytes == 0) return std::span<const std::byte>();
    if (part.bytes > kPartBytes) return reader_.Corrupt(place, part.bytes);
    const ReadPlace& at = places_[index];
    job_->Await(at.read);
    MSITD_RETURN_IF_ERROR(statuses_[at.read]);
    const std::span<const std::byte> bytes =
        memory_.subspan(at.offset, part.bytes);
    if (chunk::HashBytes(bytes) != part.hash) {
      return reader_.Corrupt(place, part.bytes);
    }
    return bytes;
  }

 private:
  struct ReadPlace {
    size_t read = 0;
    uint64_t offset = 0;  // In the memory.
  };
  struct Request {
    PackPlace place;
    uint64_t bytes = 0;
    uint64_t offset = 0;  // In the memory.
    size_t first = 0;     // The part that is asked for first.
  };

  // Returns the first parts, as many as a batch may have.
  static std::span<const PartInfo> Fitting(std::span<const PartInfo> parts) {
    size_t count = 0;
    uint64_t bytes = 0;
    while (count < parts.size() && count < kBatchPartsMax) {
      bytes += parts[count].bytes;
      if (count > 0 && bytes > kBatchBytesMax / 2) break;
      ++count;
    }
    return parts.first(count);
  }

  // Half of the batch's memory is for parts, the other half for gaps.
  void Plan(AlignedBuffer& buffer) {
    std::vector<size_t> order;
    std::vector<PackPlace> packs(parts_.size());
    for (size_t i = 0; i < parts_.size(); ++i) {
      if (parts_[i].has_bytes && parts_[i].bytes > 0 &&
          parts_[i].bytes <= kPartBytes &&
          FindPackPlace(parts_[i], packs[i]).ok()) {
        order.push_back(i);
      }
    }
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return std::pair(packs[a].pack, packs[a].offset) <
             std::pair(packs[b].pack, packs[b].offset);
    });
    uint64_t gap_bytes_left = kBatchBytesMax / 2;
    uint64_t total = 0;
    for (const size_t i : order) {
      const PackPlace& place = packs[i];
      Request* last = reads_.empty() ? nullptr : &reads_.back();
      bool joins = last != nullptr && last->place.pack == place.pack;
      uint64_t gap = 0;
      uint64_t end = 0;
      if (joins) {
        const uint64_t last_end = last->place.offset + last->bytes;
        gap = place.offset > last_end ? place.offset - last_end : 0;
        end = std::max(last_end, place.offset + parts_[i].bytes);
        joins = gap <= kGapBytesMax && gap <= gap_bytes_left &&
                end - last->place.offset <= kReadBytesMax;
      }
      if (joins) {
        gap_bytes_left -= gap;
        total += end - (last->place.offset + last->bytes);
        last->bytes = end - last->place.offset;
        last->first = std::min(last->first, i);
      } else {
        reads_.push_back({place, parts_[i].bytes, total, i});
        last = &reads_.back();
        total += parts_[i].bytes;
      }
      places_[i] = {reads_.size() - 1,
                    last->offset + (place.offset - last->place.offset)};
    }
    OrderReads();
    if (buffer.size() < total) buffer = AlignedBuffer(total);
    memory_ = buffer.span();
  }

  // Parts that the caller requests first are read first.
  void OrderReads() {
    std::vector<size_t> order(reads_.size());
    std::iota(order.begin(), order.end(), size_t{0});
    std::sort(order.begin(), order.end(), [&](size_t a, size_t b) {
      return reads_[a].first < reads_[b].first;
    });
    std::vector<size_t> now(order.size());
    std::vector<Request> reads;
    for (const size_t i : order) {
      now[i] = reads.size();
      reads.push_back(reads_[i]);
    }
    for (ReadPlace& place : places_) {
      if (!now.empty()) place.read = now[place.read];
    }
    reads_ = std::move(reads);
  }

  void Do(size_t index) {
    const Request& read = reads_[index];
    statuses_[index] =
        reader_.ReadAt(read.place, memory_.subspan(read.offset, read.bytes));
  }

  PackReader& reader_;
  const std::span<const PartInfo> parts_;
  std::vector<ReadPlace> places_;
  std::vector<Request> reads_;
  std::span<std::byte> memory_;
  // Status of each read; valid after job_ has completed it.
  std::vector<absl::Status> statuses_;
  // Declared last, so that it is destroyed before the data that it uses.
  std::optional<ReadPool::Job> job_;
};

absl::Status PackReader::Damaged(std::string_view problem) const {
  return OfArchive(
      WithReason(MakeStatus(absl::StatusCode::kDataLoss, "{}", problem),
                 ErrorReason::kFrameCorrupt),
      store_.url());
}

absl::Status PackReader::Corrupt(const PackPlace& place, uint64_t bytes) const {
  return Damaged(fmt::format(
      "{}/{}/{}: {} bytes at {} do not match their hash", store_.url(), folder_,
      manifest_.packs[place.pack].name, bytes, place.offset));
}

absl::Status PackReader::ReadAt(const PackPlace& place,
                                std::span<std::byte> out) {
  if (place.pack >= manifest_.packs.size()) {
    return Damaged(fmt::format("{}/{} names a pack {} that it does not have",
                               store_.url(), folder_, place.pack));
  }
  const ArchiveObject& pack = manifest_.packs[place.pack];
  if (place.offset > pack.bytes || out.size() > pack.bytes - place.offset) {
    return Damaged(fmt::format("{}/{}/{}: {} bytes at {} are behind its end",
                               store_.url(), folder_, pack.name, out.size(),
                               place.offset));
  }
  const absl::Status status =
      store_.Read(folder_ + "/" + pack.name, place.offset, out);
  // A missing or short object is damage, not NOT_FOUND.
  if (absl::IsNotFound(status) || absl::IsDataLoss(status)) {
    return Damaged(Message(status));
  }
  return OfArchive(status, store_.url());
}

absl::StatusOr<std::span<const std::byte>> PackReader::Read(
    const PartInfo& part, AlignedBuffer& buffer) {
  PackPlace place;
  if (!part.has_bytes) return NotKept(part);
  MSITD_RETURN_IF_ERROR(FindPackPlace(part, place));
  if (part.bytes == 0) return std::span<const std::byte>();
  if (part.bytes > kPartBytes) return Corrupt(place, part.bytes);
  if (buffer.size() < part.bytes) buffer = AlignedBuffer(part.bytes);
  const std::span<std::byte> out = buffer.span().first(part.bytes);
  MSITD_RETURN_IF_ERROR(ReadAt(place, out));
  if (chunk::HashBytes(out) != part.hash) return Corrupt(place, part.bytes);
  return out;
}

std::unique_ptr<PartBatch> PackReader::ReadBatch(
    std::span<const PartInfo> parts, AlignedBuffer& buffer) {
  return std::make_unique<Batch>(*this, parts, buffer);
}

absl::StatusOr<std::span<const std::byte>> PackReader::ReadSample(
    const TensorInfo& tensor, size_t part, AlignedBuffer& buffer) {
  MSITD_CHECK(part < tensor.parts.size());
  const PartInfo& info = tensor.parts[part];
  const SampleSlice slice =
      SampleOf(TensorPart{.dtype = tensor.dtype,
                          .tensor_bytes = tensor.tensor_bytes,
                          .offset = part * kPartBytes});
  if (info.has_sample) {
    PackPlace place;
    MSITD_RETURN_IF_ERROR(FindPackPlace(info, place));
    if (slice.bytes() == 0) return std::span<const std::byte>();
    if (buffer.size() < slice.bytes()) buffer = AlignedBuffer(slice.bytes());
    const std::span<std::byte> out = buffer.span().first(slice.bytes());
    MSITD_RETURN_IF_ERROR(ReadAt(place, out));
    if (chunk::HashSample(out) != info.sample_hash) {
      return Corrupt(place, slice.bytes());
    }
    return out;
  }
  if (slice.count == 0 && info.has_bytes) return std::span<const std::byte>();
  MSITD_ASSIGN_OR_RETURN(const auto bytes, Read(info, buffer));
  GatherSample(slice, bytes, buffer.span());
  return std::span<const std::byte>(buffer.span()).first(slice.bytes());
}

}  // namespace msitd::storage
