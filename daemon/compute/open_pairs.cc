// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/open_pairs.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>
#include <limits>

#include "protos/base/check.h"
#include "protos/compute/number/element.h"

namespace msitd::compute {
namespace {

constexpr size_t kPiece = PairAccumulator::kPairBlockElements;
constexpr double kNegativeInfinity = -std::numeric_limits<double>::infinity();

// The bits of -Inf, in the lowest bytes.
uint64_t BitsOfInfinity(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0xfc00;
    case DType::kBfloat16:
      return 0xff80;
    case DType::kFloat32:
      return 0xff800000;
    default:
      return 0xfff0000000000000;
  }
}

void Close(DType dtype, size_t place, std::vector<std::byte>& elements) {
  static_assert(std::endian::native == std::endian::little);
  const uint64_t bits = BitsOfInfinity(dtype);
  const size_t bytes = ElementBytes(dtype);
  std::memcpy(elements.data() + place * bytes, &bits, bytes);
}

}  // namespace

bool OpenPairAccumulator::Side::IsClosed(double value) {
  const auto is_nearly = [value](double other) {
    return std::fabs(value - other) <= -other * kClosingError;
  };
  if (value == kNegativeInfinity || is_nearly(closing)) {
    has_single = true;
    return true;
  }
  if (!is_nearly(2 * closing)) return false;
  has_double = true;
  return true;
}

bool OpenPairAccumulator::Side::IsStray(double value) const {
  return !(std::fabs(value) <= -closing * kOpenShare);
}

OpenPairAccumulator::OpenPairAccumulator(DType target, DType golden,
                                         const ElementRequest& request)
    : target_{target, request.closing.value_or(ClosingValues()).target},
      golden_{golden, request.closing.value_or(ClosingValues()).golden},
      pairs_(target, golden, {request.row_count, request.row_elements}),
      target_copy_(kPiece * ElementBytes(target)),
      golden_copy_(kPiece * ElementBytes(golden)),
      targets_(kPiece),
      goldens_(kPiece) {
  MSITD_CHECK(MayHaveClosedPlaces(target) && MayHaveClosedPlaces(golden));
  MSITD_CHECK(target_.closing < 0 && golden_.closing < 0);
  if (request.sets != 0) elements_.emplace(target, golden, request);
}

void OpenPairAccumulator::Update(std::span<const std::byte> target,
                                 std::span<const std::byte> golden) {
  const size_t target_bytes = ElementBytes(target_.dtype);
  const size_t golden_bytes = ElementBytes(golden_.dtype);
  const size_t count = target.size() / target_bytes;
  for (size_t i = 0; i < count && !has_strays_; i += kPiece) {
    AddPiece(target.data() + i * target_bytes, golden.data() + i * golden_bytes,
             std::min(kPiece, count - i));
  }
}

void OpenPairAccumulator::AddToSummary(double golden) {
  ++summary_.count;
  summary_.min = std::min(summary_.min, golden);
  summary_.max = std::max(summary_.max, golden);
  summary_.sum_squares += golden * golden;
  if (golden == 0) ++summary_.zero_count;
}

void OpenPairAccumulator::AddPiece(const std::byte* target,
                                   const std::byte* golden, size_t count) {
  const std::span target_piece(target, count * ElementBytes(target_.dtype));
  const std::span golden_piece(golden, count * ElementBytes(golden_.dtype));
  std::copy(target_piece.begin(), target_piece.end(), target_copy_.begin());
  std::copy(golden_piece.begin(), golden_piece.end(), golden_copy_.begin());
  ToDouble(target_.dtype, target, count, targets_.data());
  ToDouble(golden_.dtype, golden, count, goldens_.data());
  for (size_t i = 0; i < count; ++i) {
    const double t = targets_[i];
    const double g = goldens_[i];
    const bool is_target_closed = target_.IsClosed(t);
    const bool is_golden_closed = golden_.IsClosed(g);
    if (is_target_closed && is_golden_closed) {
      Close(target_.dtype, i, target_copy_);
      Close(golden_.dtype, i, golden_copy_);
      ++closed_count_;
      continue;
    }
    has_strays_ = has_strays_ || (!is_target_closed && target_.IsStray(t)) ||
                  (!is_golden_closed && golden_.IsStray(g));
    // An infinity has no counterpart then, whatever the scale of the rest is.
    if (std::isfinite(g)) AddToSummary(g);
  }
  const auto targets = std::span(target_copy_).first(target_piece.size());
  const auto goldens = std::span(golden_copy_).first(golden_piece.size());
  pairs_.Update(targets, goldens);
  if (elements_.has_value()) elements_->Update(targets, goldens);
}

std::optional<OpenPairs> OpenPairAccumulator::Finish() const {
  const auto is_mask = [](const Side& side) {
    return side.has_single || !side.has_double;
  };
  if (has_strays_ || closed_count_ == 0 || !is_mask(target_) ||
      !is_mask(golden_)) {
    return std::nullopt;
  }
  OpenPairs out;
  out.metrics = pairs_.Finish();
  if (elements_.has_value()) out.elements = elements_->Finish();
  out.golden = summary_;
  out.closed_count = closed_count_;
  return out;
}

}  // namespace msitd::compute
