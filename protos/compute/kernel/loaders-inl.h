// SPDX-License-Identifier: Apache-2.0

// Per-target loaders: each turns the elements of one dtype into a vector of
// the arithmetic type in which they are exact (64-bit integers: rounded).
// Included once for every target, hence the toggled guard.
#if defined(MSITD_PROTOS_COMPUTE_LOADERS_INL_H_) == defined(HWY_TARGET_TOGGLE)
#ifdef MSITD_PROTOS_COMPUTE_LOADERS_INL_H_
#undef MSITD_PROTOS_COMPUTE_LOADERS_INL_H_
#else
#define MSITD_PROTOS_COMPUTE_LOADERS_INL_H_
#endif

#include <cstddef>
#include <cstdint>

#include "hwy/highway.h"
#include "protos/base/dtype.h"
#include "protos/compute/number/coded_float.h"
#include "protos/compute/number/element.h"

HWY_BEFORE_NAMESPACE();
namespace msitd::compute::HWY_NAMESPACE {
namespace hn = hwy::HWY_NAMESPACE;

// Loads from any address. The scalar target would dereference a pointer.
template <class D>
HWY_INLINE hn::Vec<D> LoadAt(D d, const std::byte* bytes) {
  using T = hn::TFromD<D>;
#if HWY_TARGET == HWY_SCALAR
  T element;
  hwy::CopyBytes<sizeof(T)>(bytes, &element);
  return hn::Set(d, element);
#else
  return hn::LoadU(d, reinterpret_cast<const T*>(bytes));
#endif
}

// Loads as many elements of From as D has lanes.
template <typename From, class D>
HWY_INLINE hn::Vec<hn::Rebind<From, D>> LoadAs(D /*d*/,
                                               const std::byte* bytes) {
  return LoadAt(hn::Rebind<From, D>(), bytes);
}

// `half`: the bits of a half, zero-extended.
template <class D, class VU>
HWY_INLINE hn::Vec<D> FromHalfBits(D d, VU half) {
  const hn::RebindToUnsigned<D> du;
#if HWY_TARGET == HWY_SCALAR || HWY_TARGET == HWY_EMU128 || \
    HWY_TARGET == HWY_SSSE3 || HWY_TARGET == HWY_SSE4
  // These targets lack F16C, and Highway's emulation of it does not know NaN
  // and infinities.
  const auto bits = hn::PromoteTo(du, half);
  const auto sign = hn::ShiftLeft<16>(hn::And(bits, hn::Set(du, 0x8000u)));
  const auto rest = hn::ShiftLeft<13>(hn::And(bits, hn::Set(du, 0x7fffu)));
  const auto value = hn::Mul(hn::BitCast(d, rest), hn::Set(d, 0x1p112F));
  const auto special =
      hn::BitCast(d, hn::Or(hn::BitCast(du, value), hn::Set(du, 0x7f800000u)));
  const auto magnitude =
      hn::IfThenElse(hn::Ge(value, hn::Set(d, 65536.0F)), special, value);
  return hn::Or(magnitude, hn::BitCast(d, sign));
#else
  (void)du;
  return hn::PromoteTo(d, hn::BitCast(hn::Rebind<hwy::float16_t, D>(), half));
#endif
}

struct LoadFloat32 {
  using Arithmetic = float;
  static constexpr size_t kBytes = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    return LoadAt(d, bytes);
  }
};

struct LoadBfloat16 {
  using Arithmetic = float;
  static constexpr size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, LoadAs<uint16_t>(d, bytes));
    return hn::BitCast(d, hn::ShiftLeft<16>(bits));
  }
};

struct LoadFloat16 {
  using Arithmetic = float;
  static constexpr size_t kBytes = 2;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    return FromHalfBits(d, LoadAs<uint16_t>(d, bytes));
  }
};

struct LoadFloat8E5m2 {
  using Arithmetic = float;
  static constexpr size_t kBytes = 1;
  // A half without its last eight bits.
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::Rebind<uint16_t, D> du16;
    const auto bits = hn::PromoteTo(du16, LoadAs<uint8_t>(d, bytes));
    return FromHalfBits(d, hn::ShiftLeft<8>(bits));
  }
};

struct LoadFloat8E4m3fn {
  using Arithmetic = float;
  static constexpr size_t kBytes = 1;
  // Read as a half, the bits give the value divided by 256. The only NaN
  // becomes 480.
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::Rebind<uint16_t, D> du16;
    const auto bits = hn::PromoteTo(du16, LoadAs<uint8_t>(d, bytes));
    const auto sign =
        hn::ShiftLeft<8>(hn::And(bits, hn::Set(du16, uint16_t{0x80})));
    const auto rest =
        hn::ShiftLeft<7>(hn::And(bits, hn::Set(du16, uint16_t{0x7f})));
    const auto value =
        hn::Mul(FromHalfBits(d, hn::Or(sign, rest)), hn::Set(d, 256.0F));
    return hn::IfThenElse(hn::Eq(hn::Abs(value), hn::Set(d, 480.0F)),
                          hn::NaN(d), value);
  }
};

template <typename From>
struct LoadSmallInteger {
  using Arithmetic = float;
  static constexpr size_t kBytes = sizeof(From);
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::RebindToSigned<D> di;
    return hn::ConvertTo(d, hn::PromoteTo(di, LoadAs<From>(d, bytes)));
  }
};

struct LoadBool {
  using Arithmetic = float;
  static constexpr size_t kBytes = 1;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const auto value = LoadSmallInteger<uint8_t>::Load(d, bytes);
    return hn::IfThenZeroElse(hn::Eq(value, hn::Zero(d)), hn::Set(d, 1.0F));
  }
};

// `kValues` has the value of each byte.
template <const CodedValues& kValues>
struct LoadCodedFloat {
  using Arithmetic = float;
  static constexpr size_t kBytes = 1;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::RebindToSigned<D> di;
    return hn::GatherIndex(d, kValues.data(),
                           hn::PromoteTo(di, LoadAs<uint8_t>(d, bytes)));
  }
};

struct LoadFloat64 {
  using Arithmetic = double;
  static constexpr size_t kBytes = 8;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    return LoadAt(d, bytes);
  }
};

struct LoadInt32 {
  using Arithmetic = double;
  static constexpr size_t kBytes = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    return hn::PromoteTo(d, LoadAs<int32_t>(d, bytes));
  }
};

// The bits of 2^52 and of 2^84. Or-ing a number below 2^52 into those of 2^52
// gives the sum of both.
inline constexpr uint64_t kBits52 = 0x4330000000000000;
inline constexpr uint64_t kBits84 = 0x4530000000000000;

struct LoadUint32 {
  using Arithmetic = double;
  static constexpr size_t kBytes = 4;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = hn::PromoteTo(du, LoadAs<uint32_t>(d, bytes));
    return hn::Sub(hn::BitCast(d, hn::Or(bits, hn::Set(du, kBits52))),
                   hn::Set(d, 0x1p52));
  }
};

// Converts 64-bit integers, for which few CPUs have an instruction. The halves
// become 2^84 + 2^32 high and 2^52 + low, both exact. `excess` is taken off the
// first, exactly again; only the last addition rounds.
template <class D, class VU>
HWY_INLINE hn::Vec<D> FromHalves(D d, VU high, VU low, double excess) {
  const hn::RebindToUnsigned<D> du;
  const auto high_part = hn::Sub(
      hn::BitCast(d, hn::Or(high, hn::Set(du, kBits84))), hn::Set(d, excess));
  return hn::Add(high_part, hn::BitCast(d, hn::Or(low, hn::Set(du, kBits52))));
}

struct LoadUint64 {
  using Arithmetic = double;
  static constexpr size_t kBytes = 8;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::RebindToUnsigned<D> du;
    const auto bits = LoadAt(du, bytes);
    const auto low = hn::And(bits, hn::Set(du, uint64_t{0xffffffff}));
    return FromHalves(d, hn::ShiftRight<32>(bits), low, 0x1p84 + 0x1p52);
  }
};

struct LoadInt64 {
  using Arithmetic = double;
  static constexpr size_t kBytes = 8;
  template <class D>
  static HWY_INLINE hn::Vec<D> Load(D d, const std::byte* bytes) {
    const hn::RebindToUnsigned<D> du;
    const auto bits =
        hn::Xor(LoadAt(du, bytes), hn::Set(du, uint64_t{1} << 63));
    const auto low = hn::And(bits, hn::Set(du, uint64_t{0xffffffff}));
    return FromHalves(d, hn::ShiftRight<32>(bits), low,
                      0x1p84 + 0x1p63 + 0x1p52);
  }
};

// Calls `visit` with the loader of `component`; not if that is complex.
template <class Visit>
HWY_INLINE void WithLoader(DType component, const Visit& visit) {
  switch (StoredAs(component)) {
    case DType::kBool:
      return visit(LoadBool());
    case DType::kInt8:
      return visit(LoadSmallInteger<int8_t>());
    case DType::kInt16:
      return visit(LoadSmallInteger<int16_t>());
    case DType::kInt32:
      return visit(LoadInt32());
    case DType::kInt64:
      return visit(LoadInt64());
    case DType::kUint8:
      return visit(LoadSmallInteger<uint8_t>());
    case DType::kUint16:
      return visit(LoadSmallInteger<uint16_t>());
    case DType::kUint32:
      return visit(LoadUint32());
    case DType::kUint64:
      return visit(LoadUint64());
    case DType::kFloat16:
      return visit(LoadFloat16());
    case DType::kBfloat16:
      return visit(LoadBfloat16());
    case DType::kFloat32:
      return visit(LoadFloat32());
    case DType::kFloat64:
      return visit(LoadFloat64());
    case DType::kFloat8E4m3fn:
      return visit(LoadFloat8E4m3fn());
    case DType::kFloat8E5m2:
      return visit(LoadFloat8E5m2());
    case DType::kFloat4E2m1fn:
      return visit(LoadCodedFloat<kFloat4E2m1fnValues>());
    case DType::kFloat4E1m2:
      return visit(LoadCodedFloat<kFloat4E1m2Values>());
    case DType::kFloat6E2m3fn:
      return visit(LoadCodedFloat<kFloat6E2m3fnValues>());
    case DType::kFloat6E3m2fn:
      return visit(LoadCodedFloat<kFloat6E3m2fnValues>());
    case DType::kHifloat8:
      return visit(LoadCodedFloat<kHifloat8Values>());
    case DType::kFloat8E4m3fnuz:
      return visit(LoadCodedFloat<kFloat8E4m3fnuzValues>());
    case DType::kFloat8E5m2fnuz:
      return visit(LoadCodedFloat<kFloat8E5m2fnuzValues>());
    case DType::kFloat8E8m0fnu:
      return visit(LoadCodedFloat<kFloat8E8m0fnuValues>());
    default:
      return;
  }
}

}  // namespace msitd::compute::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#endif  // MSITD_PROTOS_COMPUTE_LOADERS_INL_H_
