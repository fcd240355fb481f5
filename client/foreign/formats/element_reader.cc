// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/element_reader.h"

#include <algorithm>
#include <cstring>

#include "client/foreign/formats/format_limits.h"
#include "protos/base/check.h"
#include "protos/status/status.h"

namespace msitd::formats {
namespace {

// The size of a block of a tensor that is not held as a whole. A multiple of
// every element's size.
constexpr uint64_t kBlockBytes = uint64_t{16} << 10;

// The number of packed bytes that are read at once.
constexpr size_t kPackedBytesAtOnce = size_t{64} << 10;

void SwapBytes(std::span<std::byte> bytes, uint32_t unit) {
  if (unit < 2) return;
  for (size_t i = 0; i + unit <= bytes.size(); i += unit) {
    std::reverse(bytes.begin() + static_cast<ptrdiff_t>(i),
                 bytes.begin() + static_cast<ptrdiff_t>(i + unit));
  }
}

// The two parts of a complex number are swapped individually.
uint32_t SwapUnit(DType dtype) {
  return IsComplex(dtype) ? ElementBytes(dtype) / 2 : ElementBytes(dtype);
}

// Returns element `index` of `packed` in a byte of its own.
std::byte Unpack(const std::byte* packed, uint64_t index, DType dtype,
                 Packing packing) {
  const uint32_t bits = InfoOf(dtype).bits;
  const uint64_t first_bit = index * bits;
  uint32_t value = 0;
  // An element of 6 bits can span two bytes.
  for (uint32_t i = 0; i < bits; ++i) {
    const uint64_t bit = first_bit + i;
    const auto byte = static_cast<uint32_t>(packed[bit / 8]);
    if (packing == Packing::kLowestFirst) {
      value |= (byte >> (bit % 8) & 1) << i;
    } else {
      value |= (byte >> (7 - bit % 8) & 1) << (bits - 1 - i);
    }
  }
  const bool is_signed = InfoOf(dtype).kind == DTypeKind::kInteger &&
                         InfoOf(dtype).numpy.starts_with('i');
  if (is_signed && (value >> (bits - 1) & 1) != 0) value |= 0xffu << bits;
  return static_cast<std::byte>(value & 0xff);
}

template <size_t kBytes>
void CopyStrided(const std::byte* from, uint64_t stride_bytes, size_t count,
                 std::byte* to) {
  for (size_t i = 0; i < count; ++i) {
    std::memcpy(to + i * kBytes, from + i * stride_bytes, kBytes);
  }
}

void CopyElements(const std::byte* from, uint64_t stride, uint32_t bytes,
                  size_t count, std::byte* to) {
  if (stride == 1) {
    std::memcpy(to, from, count * bytes);
    return;
  }
  switch (bytes) {
    case 1:
      return CopyStrided<1>(from, stride, count, to);
    case 2:
      return CopyStrided<2>(from, stride * 2, count, to);
    case 4:
      return CopyStrided<4>(from, stride * 4, count, to);
    case 8:
      return CopyStrided<8>(from, stride * 8, count, to);
    default:
      MSITD_CHECK(bytes == 16);
      return CopyStrided<16>(from, stride * 16, count, to);
  }
}

}  // namespace

// The stored bytes that are held in memory: all of them as one piece, or blocks
// that replace each other.
class ElementReader::Blocks {
 public:
  explicit Blocks(const StoredTensor& tensor) : tensor_(tensor) {}

  // Returns the contiguous bytes from `offset` on, at least one. Valid until
  // the next call. `offset` is less than tensor.bytes.
  absl::StatusOr<std::span<const std::byte>> At(uint64_t offset) {
    if (block_bytes_ == 0) MSITD_RETURN_IF_ERROR(Start());
    const uint64_t block = offset / block_bytes_;
    const uint64_t slot = SlotOf(block);
    const uint64_t begin = block * block_bytes_;
    const uint64_t size = std::min(block_bytes_, tensor_.bytes - begin);
    std::byte* const place = held_.get() + slot * block_bytes_;
    if (holds_[slot] != block) {
      holds_[slot] = kNone;
      MSITD_RETURN_IF_ERROR(
          tensor_.source->ReadAt(tensor_.begin + begin, {place, size}));
      holds_[slot] = block;
    }
    return std::span<const std::byte>(place + (offset - begin),
                                      begin + size - offset);
  }

 private:
  static constexpr uint64_t kNone = ~uint64_t{0};

  absl::Status Start() {
    const bool fits = tensor_.bytes <= kHeldBytesMax;
    block_bytes_ = fits ? tensor_.bytes : kBlockBytes;
    const uint64_t slots = fits ? 1 : kHeldBytesMax / kBlockBytes;
    held_.reset(new (std::nothrow) std::byte[slots * block_bytes_]);
    if (held_ == nullptr) {
      block_bytes_ = 0;
      return absl::ResourceExhaustedError(
          "not enough memory to change its order");
    }
    holds_.assign(slots, kNone);
    return absl::OkStatus();
  }

  // Distributes blocks at equal distances, which strides cause, over all slots.
  uint64_t SlotOf(uint64_t block) const {
    return (block * 0x9e3779b97f4a7c15u >> 20) & (holds_.size() - 1);
  }

  const StoredTensor& tensor_;
  uint64_t block_bytes_ = 0;
  std::unique_ptr<std::byte[]> held_;
  std::vector<uint64_t> holds_;
};

ElementReader::ElementReader(StoredTensor tensor)
    : tensor_(std::move(tensor)),
      element_bytes_(ElementBytes(tensor_.dtype)),
      is_in_order_(IsRowMajor(tensor_.axes)),
      left_(ElementCountOf(tensor_.axes)),
      at_(tensor_.axes.size()),
      blocks_(std::make_unique<Blocks>(tensor_)) {}

ElementReader::~ElementReader() = default;

absl::StatusOr<size_t> ElementReader::Read(std::span<std::byte> out) {
  MSITD_CHECK(out.size() >= kReadBytesMin);
  const uint64_t count = std::min<uint64_t>(left_, out.size() / element_bytes_);
  out = out.first(count * element_bytes_);
  if (count == 0) return 0;
  if (!is_in_order_) {
    MSITD_RETURN_IF_ERROR(Gather(out));
  } else if (tensor_.packing != Packing::kNone) {
    MSITD_RETURN_IF_ERROR(ReadPacked(out));
  } else {
    MSITD_RETURN_IF_ERROR(ReadInOrder(out));
  }
  if (tensor_.is_big_endian) SwapBytes(out, SwapUnit(tensor_.dtype));
  left_ -= count;
  done_ += count;
  return out.size();
}

absl::Status ElementReader::ReadInOrder(std::span<std::byte> out) {
  const uint64_t element = tensor_.first_element + done_;
  return tensor_.source->ReadAt(tensor_.begin + element * element_bytes_, out);
}

absl::Status ElementReader::ReadPacked(std::span<std::byte> out) {
  const uint32_t bits = InfoOf(tensor_.dtype).bits;
  std::vector<std::byte> packed;
  uint64_t element = tensor_.first_element + done_;
  while (!out.empty()) {
    const size_t count =
        std::min<size_t>(out.size(), kPackedBytesAtOnce * 8 / bits);
    // Every group of 8 elements begins at a byte, so indexes can be counted
    // from there.
    const uint64_t begin = element / 8 * bits;
    const uint64_t end = ((element + count) * bits + 7) / 8;
    packed.resize(end - begin);
    MSITD_RETURN_IF_ERROR(
        tensor_.source->ReadAt(tensor_.begin + begin, packed));
    for (size_t i = 0; i < count; ++i) {
      out[i] = Unpack(packed.data(), element % 8 + i, tensor_.dtype,
                      tensor_.packing);
    }
    element += count;
    out = out.subspan(count);
  }
  return absl::OkStatus();
}

uint64_t ElementReader::OuterOffset() const {
  uint64_t offset = tensor_.first_element;
  for (size_t i = 0; i + 1 < at_.size(); ++i) {
    const Axis& axis = tensor_.axes[i];
    offset += at_[i] / axis.block * axis.stride +
              at_[i] % axis.block * axis.block_stride;
  }
  return offset;
}

void ElementReader::NextRow() {
  at_.back() = 0;
  for (size_t i = at_.size() - 1; i-- > 0;) {
    if (++at_[i] < tensor_.axes[i].extent) return;
    at_[i] = 0;
  }
}

absl::Status ElementReader::Gather(std::span<std::byte> out) {
  const Axis& row = tensor_.axes.back();
  uint64_t outer = OuterOffset();
  while (!out.empty()) {
    const uint64_t index = at_.back();
    // Elements at equal distances: the rest of the block or of the row.
    const bool is_split = row.block > 1;
    const uint64_t run =
        std::min(row.extent - index,
                 is_split ? row.block - index % row.block : row.extent);
    const uint64_t count = std::min<uint64_t>(run, out.size() / element_bytes_);
    const uint64_t element = outer + index / row.block * row.stride +
                             index % row.block * row.block_stride;
    MSITD_RETURN_IF_ERROR(GatherRun(element,
                                    is_split ? row.block_stride : row.stride,
                                    out.first(count * element_bytes_)));
    out = out.subspan(count * element_bytes_);
    at_.back() += count;
    if (at_.back() == row.extent) {
      NextRow();
      outer = OuterOffset();
    }
  }
  return absl::OkStatus();
}

absl::Status ElementReader::GatherRun(uint64_t element, uint64_t stride,
                                      std::span<std::byte> out) {
  if (tensor_.packing != Packing::kNone) {
    for (std::byte& to : out) {
      MSITD_ASSIGN_OR_RETURN(to, PackedAt(element));
      element += stride;
    }
    return absl::OkStatus();
  }
  while (!out.empty()) {
    MSITD_ASSIGN_OR_RETURN(const std::span<const std::byte> held,
                           blocks_->At(element * element_bytes_));
    const uint64_t wanted = out.size() / element_bytes_;
    const uint64_t in_block = held.size() / element_bytes_;
    const uint64_t reach = stride == 0 ? wanted : (in_block - 1) / stride + 1;
    const uint64_t count = std::min(wanted, reach);
    CopyElements(held.data(), stride, element_bytes_, count, out.data());
    out = out.subspan(count * element_bytes_);
    element += count * stride;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::byte> ElementReader::PackedAt(uint64_t element) {
  const uint32_t bits = InfoOf(tensor_.dtype).bits;
  const uint64_t first_bit = element / 8 * 8 * bits;
  // A group of 8 elements. The bytes after the last one stay 0.
  std::byte group[8] = {};
  const uint64_t begin = first_bit / 8;
  const uint64_t end = std::min<uint64_t>(begin + bits, tensor_.bytes);
  for (uint64_t at = begin; at < end; ++at) {
    MSITD_ASSIGN_OR_RETURN(const std::span<const std::byte> held,
                           blocks_->At(at));
    group[at - begin] = held.front();
  }
  return Unpack(group, element % 8, tensor_.dtype, tensor_.packing);
}

}  // namespace msitd::formats
