// SPDX-License-Identifier: Apache-2.0

// Per-target decoding of blocks of elements of any component to float or
// double. Included once for every target, hence the toggled guard.
#if defined(MSITD_DAEMON_COMPUTE_DECODE_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_DAEMON_COMPUTE_DECODE_INL_H_
#undef MSITD_DAEMON_COMPUTE_DECODE_INL_H_
#else
#define MSITD_DAEMON_COMPUTE_DECODE_INL_H_
#endif

#include <cstddef>

#include "hwy/highway.h"
#include "protos/base/dtype.h"
#include "protos/compute/kernel/loaders-inl.h"
#include "protos/compute/number/lane_sum.h"

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

template <typename T>
inline constexpr DType kDTypeOf = sizeof(T) == sizeof(float) ? DType::kFloat32
                                                             : DType::kFloat64;

template <typename T>
using BlockTag = hn::CappedTag<T, kVirtualLanes>;

// The elements of a block as T, which is double or exact for them.
template <typename T>
struct Decoded {
  alignas(64) T element[kBlockElements];

  const std::byte* bytes() const {
    return reinterpret_cast<const std::byte*>(element);
  }
};

template <typename T>
HWY_NOINLINE void Decode(DType component, const std::byte* bytes,
                         Decoded<T>& out) {
  const BlockTag<T> d;
  constexpr size_t kLanes = hn::MaxLanes(d);
  WithLoader(component, [&](auto loader) HWY_ATTR {
    using Loader = decltype(loader);
    using From = typename Loader::Arithmetic;
    if constexpr (sizeof(From) == sizeof(T)) {
      for (size_t i = 0; i < kBlockElements; i += kLanes) {
        hn::Store(Loader::Load(d, bytes + i * Loader::kBytes), d,
                  out.element + i);
      }
    } else if constexpr (sizeof(From) < sizeof(T)) {
      const hn::Rebind<From, BlockTag<T>> from;
      for (size_t i = 0; i < kBlockElements; i += kLanes) {
        hn::Store(
            hn::PromoteTo(d, Loader::Load(from, bytes + i * Loader::kBytes)), d,
            out.element + i);
      }
    }
  });
}

// Returns one side of a block as T: where it lies if it has that type, else
// decoded into `buffer`.
template <typename T>
HWY_INLINE const std::byte* BlockAs(DType component, const std::byte* bytes,
                                    Decoded<T>& buffer) {
  if (component == kDTypeOf<T>) return bytes;
  Decode(component, bytes, buffer);
  return buffer.bytes();
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MSITD_DAEMON_COMPUTE_DECODE_INL_H_
