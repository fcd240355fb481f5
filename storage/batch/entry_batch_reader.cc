// SPDX-License-Identifier: Apache-2.0
#include <utility>

#include "protos/base/limits.h"
#include "protos/base/summary_codec.h"
#include "protos/base/utf8.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"
#include "storage/batch/entry_batch.h"
#include "storage/batch/entry_codec.h"

namespace msitd::storage {
namespace {

template <typename... Args>
absl::Status Corrupt(fmt::format_string<Args...> format, Args&&... args) {
  return MakeStatus(absl::StatusCode::kDataLoss, format,
                    std::forward<Args>(args)...);
}

// Minimum size of an entry: numbers, names, summary and one part.
constexpr size_t kEntryBytesMin = 60;

ContentHash GetHash(ByteReader& in) {
  ContentHash hash;
  hash.low = in.GetFixed64();
  hash.high = in.GetFixed64();
  return hash;
}

// Numbers beyond the range of a key become -1, which no key has.
int32_t GetInt32(ByteReader& in) {
  const uint64_t number = in.GetVarint();
  return number > INT32_MAX ? -1 : static_cast<int32_t>(number);
}

int64_t GetInt64(ByteReader& in) {
  const uint64_t number = in.GetVarint();
  return number > INT64_MAX ? -1 : static_cast<int64_t>(number);
}

absl::Status CheckText(std::string_view what, std::string_view text) {
  if (text.find('\0') == std::string_view::npos && IsValidUtf8(text)) {
    return absl::OkStatus();
  }
  return Corrupt("{} is not UTF-8 text without NUL", what);
}

}  // namespace

absl::StatusOr<EntryBatchReader> EntryBatchReader::Open(std::string batch,
                                                        std::string run) {
  EntryBatchReader out(std::move(batch), std::move(run));
  const absl::Status status = out.ReadTexts();
  if (!status.ok()) return Annotate(status, "cannot read a batch of entries");
  return out;
}

absl::Status EntryBatchReader::ReadTexts() {
  if (batch_.size() > kEntryBatchBytesMax) {
    return Corrupt("it is {} bytes long, and at most {} may be", batch_.size(),
                   kEntryBatchBytesMax);
  }
  ByteReader in(batch_);
  const uint8_t version = in.GetByte();
  if (version != kEntryBatchVersion) {
    return Corrupt("its version is {}, and only {} is known", version,
                   kEntryBatchVersion);
  }
  const uint64_t text_count = in.GetVarint();
  const uint64_t entry_count = in.GetVarint();
  if (!in.ok() || text_count > in.left() ||
      entry_count > in.left() / kEntryBytesMin ||
      entry_count > kBatchEntriesMax) {
    return Corrupt("it is cut off, or says that it has {} entries",
                   entry_count);
  }
  texts_.reserve(text_count);
  for (uint64_t i = 0; i < text_count; ++i) {
    const std::string_view text = in.GetText();
    if (!in.ok()) return Corrupt("its texts are cut off");
    texts_.push_back(
        {static_cast<size_t>(text.data() - batch_.data()), text.size()});
  }
  entry_count_ = entry_count;
  at_ = batch_.size() - in.left();
  return absl::OkStatus();
}

absl::StatusOr<std::string_view> EntryBatchReader::FindText(
    uint64_t number) const {
  if (number >= texts_.size()) {
    return Corrupt("it names text {} of {}", number, texts_.size());
  }
  const TextPlace place = texts_[number];
  return std::string_view(batch_).substr(place.begin, place.size);
}

absl::Status EntryBatchReader::ReadName(ByteReader& in, const NameRule& rule,
                                        std::string& out) {
  const uint64_t number = in.GetVarint();
  MSITD_ASSIGN_OR_RETURN(const std::string_view name, FindText(number));
  if (name.size() > rule.bytes_max || name.size() < rule.bytes_min) {
    return Corrupt("{} is {} bytes long", rule.what, name.size());
  }
  TextPlace& place = texts_[number];
  if (!place.is_name) {
    MSITD_RETURN_IF_ERROR(CheckText(rule.what, name));
    place.is_name = true;
  }
  out.assign(name);
  return absl::OkStatus();
}

absl::StatusOr<bool> EntryBatchReader::Next(TensorInfo& out) {
  ByteReader in(std::string_view(batch_).substr(at_));
  if (read_count_ == entry_count_) {
    if (in.left() == 0) return false;
    return Corrupt("a batch of entries has {} bytes behind its last one",
                   in.left());
  }
  absl::Status status = ReadEntry(in, out);
  if (status.ok() && !in.ok()) status = Corrupt("it is cut off");
  if (!status.ok()) {
    return Annotate(
        status, fmt::format("cannot read entry {} of a batch", read_count_));
  }
  ++read_count_;
  at_ = batch_.size() - in.left();
  return true;
}

absl::Status EntryBatchReader::ReadEntry(ByteReader& in, TensorInfo& out) {
  out.key.rank = GetInt32(in);
  out.key.token = GetInt64(in);
  out.key.call = GetInt32(in);
  out.key.io = static_cast<Io>(in.GetByte());
  out.kind = static_cast<RecordKind>(in.GetByte());
  out.dtype = static_cast<DType>(in.GetByte());
  out.tensor_bytes = in.GetVarint();
  out.sequence = in.GetVarint();
  MSITD_RETURN_IF_ERROR(ReadKey(in, out.key));
  MSITD_RETURN_IF_ERROR(ReadShape(in, out));
  const uint64_t bits = in.GetVarint();
  if (bits >= kEntryBitsEnd) return Corrupt("its bits {:#x} are unknown", bits);
  out.has_bytes = (bits & kEntryHasBytes) != 0;
  out.has_sample = (bits & kEntryHasSample) != 0;
  out.is_claimed = (bits & kEntryIsClaimed) != 0;
  GetSummary(in, out.summary);
  if (out.tensor_bytes > kTensorBytesMax) {
    return Corrupt("it has {} bytes", out.tensor_bytes);
  }
  MSITD_RETURN_IF_ERROR(ReadParts(in, bits, out));
  MSITD_RETURN_IF_ERROR(ReadExtras(in, bits, out));
  return CheckEntry(out);
}

absl::Status EntryBatchReader::ReadKey(ByteReader& in, TensorKey& key) {
  static constexpr NameRule kDevice = {"its device", 1, kDeviceBytesMax};
  static constexpr NameRule kOp = {"its op", 1, kOpBytesMax};
  static constexpr NameRule kIndex = {"its index", 0, kIndexBytesMax};
  key.run = run_;
  MSITD_RETURN_IF_ERROR(ReadName(in, kDevice, key.device));
  MSITD_RETURN_IF_ERROR(ReadName(in, kOp, key.op));
  return ReadName(in, kIndex, key.index);
}

absl::Status EntryBatchReader::ReadShape(ByteReader& in, TensorInfo& out) {
  MSITD_ASSIGN_OR_RETURN(const std::string_view text, FindText(in.GetVarint()));
  ByteReader dims(text);
  out.shape.clear();
  while (dims.left() > 0 && out.shape.size() <= kDimsMax) {
    out.shape.push_back(GetInt64(dims));
  }
  if (dims.done()) return absl::OkStatus();
  return Corrupt("its shape has more than {} dimensions, or is cut off",
                 kDimsMax);
}

absl::Status EntryBatchReader::ReadParts(ByteReader& in, uint64_t bits,
                                         TensorInfo& out) {
  const uint64_t part_count = chunk::PartCount(out.tensor_bytes);
  if (part_count > in.left()) return Corrupt("its parts are cut off");
  out.parts.clear();
  hashes_.clear();
  for (uint64_t i = 0; i < part_count; ++i) {
    PartInfo& part = out.parts.emplace_back();
    part.place.file = in.GetVarint();
    part.place.offset = in.GetVarint();
    part.bytes = std::min(kPartBytes, out.tensor_bytes - i * kPartBytes);
    part.hash = GetHash(in);
    part.has_bytes = out.has_bytes;
    if ((bits & kEntryMixedParts) != 0) {
      const uint8_t part_bits = in.GetByte();
      part.has_bytes = (part_bits & kPartHasBytes) != 0;
      part.has_sample = (part_bits & kPartHasSample) != 0;
      if (part_bits > (kPartHasBytes | kPartHasSample) ||
          (out.has_bytes && !part.has_bytes)) {
        return Corrupt("the bits {:#x} of part {} do not go with it", part_bits,
                       i);
      }
    }
    if (part.has_sample) part.sample_hash = in.GetFixed64();
    hashes_.push_back(part.hash);
  }
  out.hash =
      part_count == 1 ? hashes_.front() : chunk::CombinePartHashes(hashes_);
  return absl::OkStatus();
}

absl::Status EntryBatchReader::ReadExtras(ByteReader& in, uint64_t bits,
                                          TensorInfo& out) {
  out.placement.clear();
  out.value.clear();
  out.stack.clear();
  out.alias_of.reset();
  out.requires_grad.reset();
  if ((bits & kEntryGradKnown) != 0) {
    out.requires_grad = (bits & kEntryGrad) != 0;
  }
  if (((bits & kEntryValue) != 0) != HasValueText(out.kind)) {
    return Corrupt("it has a value, and its kind has none, or the reverse");
  }
  if ((bits & kEntryPlacement) != 0) {
    MSITD_RETURN_IF_ERROR(
        ReadName(in, {"its placement", 1, kPlacementBytesMax}, out.placement));
  }
  if ((bits & kEntryValue) != 0) {
    out.value = in.GetText();
    if (out.value.size() > kValueBytesMax) {
      return Corrupt("its value is {} bytes long", out.value.size());
    }
    MSITD_RETURN_IF_ERROR(CheckText("its value", out.value));
  }
  if ((bits & kEntryStack) != 0) {
    MSITD_RETURN_IF_ERROR(
        ReadName(in, {"its stack", 1, kStackBytesMax}, out.stack));
  }
  if ((bits & kEntryAlias) == 0) return absl::OkStatus();
  AliasOf& original = out.alias_of.emplace();
  MSITD_RETURN_IF_ERROR(
      ReadName(in, {"the op of its original", 1, kOpBytesMax}, original.op));
  original.call = GetInt32(in);
  original.io = static_cast<Io>(in.GetByte());
  return ReadName(in, {"the index of its original", 0, kIndexBytesMax},
                  original.index);
}

}  // namespace msitd::storage
