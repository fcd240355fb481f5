// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>

#include "protos/base/dtype.h"
#include "protos/base/limits.h"

// The sample of a tensor: its first element and every n-th element after it,
// where the step n is the smallest that leaves at most kSampleElementsMax
// elements. A complex element is one element. The sampled positions depend only
// on the number of elements. Samples of tensors with the same number of
// elements can therefore be compared element by element, even if different
// programs took them.
namespace msitd {

inline constexpr uint64_t kSampleElementsMax = 1024;

// For the widest type.
inline constexpr uint64_t kSampleBytesMax = kSampleElementsMax * 16;

constexpr uint64_t SampleStep(uint64_t element_count) {
  return element_count <= kSampleElementsMax
             ? 1
             : (element_count + kSampleElementsMax - 1) / kSampleElementsMax;
}

// Returns the number of elements in the sample of a tensor with `element_count`
// elements.
constexpr uint64_t SampleCount(uint64_t element_count) {
  const uint64_t step = SampleStep(element_count);
  return (element_count + step - 1) / step;
}

// A part of a tensor.
struct TensorPart {
  DType dtype = DType::kUnspecified;
  uint64_t tensor_bytes = 0;  // Size of the whole tensor.
  uint64_t offset = 0;        // A multiple of kPartBytes.
};

// The elements of a sample that are in one part.
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
  // Number of sampled elements of the tensor before `begin`, and before `end`.
  const uint64_t before = (begin + out.step - 1) / out.step;
  const uint64_t until = (end + out.step - 1) / out.step;
  out.count = until - before;
  if (out.count > 0) out.first = before * out.step - begin;
  return out;
}

// Copies the elements of `slice` from `part`, which has the bytes of the whole
// part, to the start of `out`, which may start at the same address as `part`.
void GatherSample(const SampleSlice& slice, std::span<const std::byte> part,
                  std::span<std::byte> out);

}  // namespace msitd
