// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/formats/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <string>
#include <utility>
#include <vector>

#include "protos/status/status.h"

namespace msitd::formats {
namespace {

constexpr uint32_t kSmall = 32;
constexpr uint32_t kLarge = 256;
// Blocks that are read at once.
constexpr uint64_t kBlocksPerRead = 256;

float FloatOfHalf(const uint8_t* bytes) {
  constexpr uint32_t kExponentShift = 23;
  const uint32_t half = bytes[0] | static_cast<uint32_t>(bytes[1])
                                       << uint32_t{8};
  const uint32_t sign = (half & 0x8000U) << 16U;
  const uint32_t exponent = (half >> 10U) & 0x1FU;
  const uint32_t fraction = half & 0x3FFU;
  if (exponent == 0x1F) {
    return std::bit_cast<float>(sign | 0x7F800000U | fraction << 13U);
  }
  if (exponent == 0) {
    // Exact: the fraction has 10 bits.
    const float value = static_cast<float>(fraction) * 0x1p-24F;
    return sign == 0 ? value : -value;
  }
  return std::bit_cast<float>(sign | (exponent + 112) << kExponentShift |
                              fraction << 13U);
}

// Integer `i` of 32 with 4 bits each: the low bits of 16 bytes, then the high
// bits of the same bytes.
uint32_t FourBits(const uint8_t* bytes, uint32_t i) {
  return i < 16 ? bytes[i] & 0x0FU : uint32_t{bytes[i - 16]} >> 4U;
}

uint32_t OneBit(const uint8_t* bytes, uint32_t i) {
  return (uint32_t{bytes[i / 8]} >> (i % 8)) & 1U;
}

void DecodeQ40(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    out[i] =
        d * static_cast<float>(static_cast<int>(FourBits(block + 2, i)) - 8);
  }
}

void DecodeQ41(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  const float m = FloatOfHalf(block + 2);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const float scaled = d * static_cast<float>(FourBits(block + 4, i));
    out[i] = scaled + m;
  }
}

void DecodeQ50(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const uint32_t q = FourBits(block + 6, i) | OneBit(block + 2, i) << 4U;
    out[i] = d * static_cast<float>(static_cast<int>(q) - 16);
  }
}

void DecodeQ51(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  const float m = FloatOfHalf(block + 2);
  for (uint32_t i = 0; i < kSmall; ++i) {
    const uint32_t q = FourBits(block + 8, i) | OneBit(block + 4, i) << 4U;
    const float scaled = d * static_cast<float>(q);
    out[i] = scaled + m;
  }
}

void DecodeQ80(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  for (uint32_t i = 0; i < kSmall; ++i) {
    out[i] = static_cast<float>(static_cast<int8_t>(block[2 + i])) * d;
  }
}

// Integer `i` of 256 with 2 bits each: 32 bytes have those of 128 elements.
uint32_t TwoBits(const uint8_t* bytes, uint32_t i) {
  const uint32_t byte = bytes[i / 128 * 32 + i % 32];
  return (byte >> (i % 128 / 32 * 2)) & 3U;
}

// Integer `i` of 256 with 4 bits each: `run` bytes have those of twice as many
// elements, the low bits first.
uint32_t FourBitsOf(const uint8_t* bytes, uint32_t i, uint32_t run) {
  const uint32_t byte = bytes[i / (2 * run) * run + i % run];
  return i % (2 * run) < run ? byte & 0x0FU : byte >> 4U;
}

// Bit `i` of 256: bit i / 32 of byte i % 32.
uint32_t HighBit(const uint8_t* bytes, uint32_t i) {
  return (uint32_t{bytes[i % 32]} >> (i / 32)) & 1U;
}

void DecodeQ2K(const uint8_t* block, float* out) {
  const uint8_t* const integers = block + 16;
  const float d = FloatOfHalf(block + 80);
  const float dmin = FloatOfHalf(block + 82);
  for (uint32_t i = 0; i < kLarge; ++i) {
    const uint8_t scale = block[i / 16];
    const float dl = d * static_cast<float>(scale & 0x0F);
    const float ml = dmin * static_cast<float>(scale >> 4);
    const float scaled = dl * static_cast<float>(TwoBits(integers, i));
    out[i] = scaled - ml;
  }
}

void DecodeQ3K(const uint8_t* block, float* out) {
  const uint8_t* const high = block;
  const uint8_t* const integers = block + 32;
  const uint8_t* const scales = block + 96;
  const float d = FloatOfHalf(block + 108);
  for (uint32_t i = 0; i < kLarge; ++i) {
    const uint32_t part = i / 16;
    const uint32_t low =
        part < 8 ? scales[part] & 0x0FU : uint32_t{scales[part - 8]} >> 4U;
    const uint32_t top =
        (uint32_t{scales[8 + part % 4]} >> (part / 4 * 2)) & 3U;
    const int scale = static_cast<int>(low | top << 4U) - 32;
    const int q = static_cast<int>(TwoBits(integers, i)) -
                  (HighBit(high, i) == 0 ? 4 : 0);
    const float dl = d * static_cast<float>(scale);
    out[i] = dl * static_cast<float>(q);
  }
}

// The scale and the minimum of part `i` of 8, with 6 bits each in 12 bytes.
struct ScaleAndMin {
  float scale;
  float min;
};
ScaleAndMin PackedScale(const uint8_t* s, uint32_t i) {
  if (i < 4) {
    return {static_cast<float>(s[i] & 0x3F),
            static_cast<float>(s[4 + i] & 0x3F)};
  }
  const uint32_t k = i - 4;
  return {static_cast<float>((s[8 + k] & 0x0FU) | ((s[k] >> 2U) & 0x30U)),
          static_cast<float>((uint32_t{s[8 + k]} >> 4U) |
                             ((s[4 + k] >> 2U) & 0x30U))};
}

void DecodeQ4K(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  const float dmin = FloatOfHalf(block + 2);
  for (uint32_t i = 0; i < kLarge; ++i) {
    const ScaleAndMin part = PackedScale(block + 4, i / 32);
    const float dl = d * part.scale;
    const float ml = dmin * part.min;
    const float scaled = dl * static_cast<float>(FourBitsOf(block + 16, i, 32));
    out[i] = scaled - ml;
  }
}

void DecodeQ5K(const uint8_t* block, float* out) {
  const float d = FloatOfHalf(block);
  const float dmin = FloatOfHalf(block + 2);
  for (uint32_t i = 0; i < kLarge; ++i) {
    const ScaleAndMin part = PackedScale(block + 4, i / 32);
    const float dl = d * part.scale;
    const float ml = dmin * part.min;
    const uint32_t q = FourBitsOf(block + 48, i, 32) | HighBit(block + 16, i)
                                                           << 4U;
    const float scaled = dl * static_cast<float>(q);
    out[i] = scaled - ml;
  }
}

void DecodeQ6K(const uint8_t* block, float* out) {
  const uint8_t* const high = block + 128;
  const uint8_t* const scales = block + 192;
  const float d = FloatOfHalf(block + 208);
  for (uint32_t i = 0; i < kLarge; ++i) {
    const float dl =
        d * static_cast<float>(static_cast<int8_t>(scales[i / 16]));
    const uint32_t q = FourBitsOf(block, i, 64) | TwoBits(high, i) << 4U;
    out[i] = dl * static_cast<float>(static_cast<int>(q) - 32);
  }
}

constexpr GgufBlockType kTypes[] = {
    {2, "Q4_0", kSmall, 18, &DecodeQ40},
    {3, "Q4_1", kSmall, 20, &DecodeQ41},
    {6, "Q5_0", kSmall, 22, &DecodeQ50},
    {7, "Q5_1", kSmall, 24, &DecodeQ51},
    {8, "Q8_0", kSmall, 34, &DecodeQ80},
    {9, "Q8_1", kSmall, 40},
    {10, "Q2_K", kLarge, 84, &DecodeQ2K},
    {11, "Q3_K", kLarge, 110, &DecodeQ3K},
    {12, "Q4_K", kLarge, 144, &DecodeQ4K},
    {13, "Q5_K", kLarge, 176, &DecodeQ5K},
    {14, "Q6_K", kLarge, 210, &DecodeQ6K},
    {15, "Q8_K", kLarge, 292},
    {16, "IQ2_XXS", kLarge, 66},
    {17, "IQ2_XS", kLarge, 74},
    {18, "IQ3_XXS", kLarge, 98},
    {19, "IQ1_S", kLarge, 50},
    {20, "IQ4_NL", kSmall, 18},
    {21, "IQ3_S", kLarge, 110},
    {22, "IQ2_S", kLarge, 82},
    {23, "IQ4_XS", kLarge, 136},
    {29, "IQ1_M", kLarge, 56},
    {34, "TQ1_0", kLarge, 54},
    {35, "TQ2_0", kLarge, 66},
    {39, "MXFP4", kSmall, 17},
    {40, "NVFP4", 64, 36},
    {41, "Q1_0", 128, 18},
};

class GgufValues final : public ByteSource {
 public:
  GgufValues(std::shared_ptr<const ByteSource> file, uint64_t begin,
             uint64_t block_count, const GgufBlockType& type)
      : file_(std::move(file)),
        begin_(begin),
        block_count_(block_count),
        type_(type) {}

  uint64_t size() const override { return block_count_ * BlockBytes(); }

  absl::Status ReadAt(uint64_t offset,
                      std::span<std::byte> out) const override {
    if (!Has(offset, out.size())) {
      return absl::DataLossError("it has fewer values");
    }
    std::vector<uint8_t> raw;
    std::array<float, kLarge> values;
    while (!out.empty()) {
      const uint64_t first = offset / BlockBytes();
      const uint64_t end = (offset + out.size() - 1) / BlockBytes() + 1;
      const uint64_t count = std::min(end - first, kBlocksPerRead);
      raw.resize(count * type_.bytes);
      MSITD_RETURN_IF_ERROR(
          file_->ReadAt(begin_ + first * type_.bytes,
                        std::as_writable_bytes(std::span(raw))));
      for (uint64_t i = 0; i < count; ++i) {
        type_.decode(raw.data() + i * type_.bytes, values.data());
        const uint64_t skipped = offset % BlockBytes();
        const auto length = static_cast<size_t>(
            std::min<uint64_t>(BlockBytes() - skipped, out.size()));
        std::memcpy(out.data(),
                    reinterpret_cast<const std::byte*>(values.data()) + skipped,
                    length);
        out = out.subspan(length);
        offset += length;
      }
    }
    return absl::OkStatus();
  }

 private:
  uint64_t BlockBytes() const { return type_.elements * sizeof(float); }

  const std::shared_ptr<const ByteSource> file_;
  const uint64_t begin_;
  const uint64_t block_count_;
  const GgufBlockType& type_;
};

}  // namespace

const GgufBlockType* FindGgufBlockType(uint32_t number) {
  for (const GgufBlockType& type : kTypes) {
    if (type.number == number) return &type;
  }
  return nullptr;
}

std::shared_ptr<const ByteSource> MakeGgufValues(
    std::shared_ptr<const ByteSource> file, uint64_t begin,
    uint64_t block_count, const GgufBlockType& type) {
  return std::make_shared<GgufValues>(std::move(file), begin, block_count,
                                      type);
}

}  // namespace msitd::formats
