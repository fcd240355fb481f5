// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"

// The sample of a tensor: its first element and every step-th one after it. The
// step is the smallest that leaves at most kSampleElementsMax elements. A
// complex element is one element. Which elements are sampled depends on their
// number alone, so samples of tensors with equally many elements can be
// compared element by element, whoever took them.
namespace msitd {

inline constexpr uint64_t kSampleElementsMax = 1024;

// Of the widest type.
inline constexpr uint64_t kSampleBytesMax = kSampleElementsMax * 16;

constexpr uint64_t SampleStep(uint64_t element_count) {
  return element_count <= kSampleElementsMax
             ? 1
             : (element_count + kSampleElementsMax - 1) / kSampleElementsMax;
}

// Returns how many elements the sample of a tensor of `element_count` has.
constexpr uint64_t SampleCount(uint64_t element_count) {
  const uint64_t step = SampleStep(element_count);
  return (element_count + step - 1) / step;
}

// A part of a tensor.
struct TensorPart {
  DType dtype = DType::kUnspecified;
  uint64_t tensor_bytes = 0;  // Of the whole tensor.
  uint64_t offset = 0;        // A multiple of kPartBytes.
};

// The elements of a sample that lie in one part.
struct SampleSlice {
  uint32_t element_bytes = 1;
  uint64_t step = 1;
  uint64_t first = 0;  // Index of an element in the part.
  uint64_t count = 0;  // May be 0 in parts of a very large tensor.

  uint64_t bytes() const { return count * element_bytes; }
};

constexpr SampleSlice SampleOf(const TensorPart& part) {
  SampleSlice out;
  if (!IsValid(part.dtype) || part.offset >= part.tensor_bytes) return out;
  out.element_bytes = ElementBytes(part.dtype);
  out.step = SampleStep(part.tensor_bytes / out.element_bytes);
  const uint64_t begin = part.offset / out.element_bytes;
  const uint64_t end =
      begin +
      std::min(kPartBytes, part.tensor_bytes - part.offset) / out.element_bytes;
  // How many sampled elements of the tensor lie before `begin`, and before
  // `end`.
  const uint64_t before = (begin + out.step - 1) / out.step;
  const uint64_t until = (end + out.step - 1) / out.step;
  out.count = until - before;
  if (out.count > 0) out.first = before * out.step - begin;
  return out;
}

// Copies the elements that `slice` names from `part`, the bytes of the whole
// part, to the start of `out`, which may start where `part` does.
void GatherSample(const SampleSlice& slice, std::span<const std::byte> part,
                  std::span<std::byte> out);

}  // namespace msitd
