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

// Returns the bits of -Inf, in the lowest bytes.
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
  if (value == kNegativeInfinity) {
    has_single = has_infinity_in_row = true;
    return true;
  }
  if (is_nearly(closing)) {
    has_single = true;
    closed_min = std::min(closed_min, value);
    closed_max = std::max(closed_max, value);
    return true;
  }
  if (!is_nearly(2 * closing)) return false;
  has_double = true;
  return true;
}

bool OpenPairAccumulator::Side::IsStray(double value) const {
  return !(std::fabs(value) <= -closing * kOpenShare);
}

bool OpenPairAccumulator::Side::IsMaskOfScores() const {
  if (!has_single) return !has_double;
  // Scores of closed places may be this many times larger than those of open
  // places.
  constexpr double kScoreRange = 4;
  const double rounding = dtype == DType::kBfloat16  ? 0x1p-7
                          : dtype == DType::kFloat16 ? 0x1p-10
                                                     : 0x1p-20;
  return closed_max - closed_min <= kScoreRange * open_max - closing * rounding;
}

OpenPairAccumulator::OpenPairAccumulator(DType target, DType golden,
                                         const ElementRequest& request)
    : target_{target, request.closing.value_or(ClosingValues()).target},
      golden_{golden, request.closing.value_or(ClosingValues()).golden},
      pairs_(target, golden, request.row_shape()),
      target_copy_(kPiece * ElementBytes(target)),
      golden_copy_(kPiece * ElementBytes(golden)),
      targets_(kPiece),
      goldens_(kPiece),
      row_elements_(request.row_elements),
      are_softmaxed_(request.closing.value_or(ClosingValues()).are_softmaxed) {
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

void OpenPairAccumulator::EndPlace(bool is_closed) {
  ++place_count_;
  if (is_closed) {
    ++closed_count_;
    ++closed_in_row_;
  }
  if (row_elements_ == 0 || place_count_ % row_elements_ != 0) return;
  if (closed_in_row_ == row_elements_ &&
      target_.has_infinity_in_row != golden_.has_infinity_in_row) {
    has_other_rows_ = true;
  }
  closed_in_row_ = 0;
  target_.has_infinity_in_row = golden_.has_infinity_in_row = false;
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
    const bool is_closed = is_target_closed && is_golden_closed;
    EndPlace(is_closed);
    if (is_closed) {
      Close(target_.dtype, i, target_copy_);
      Close(golden_.dtype, i, golden_copy_);
      continue;
    }
    if (!is_target_closed) {
      target_.open_max = std::max(target_.open_max, std::fabs(t));
    }
    if (!is_golden_closed) {
      golden_.open_max = std::max(golden_.open_max, std::fabs(g));
    }
    has_strays_ = has_strays_ || (!is_target_closed && target_.IsStray(t)) ||
                  (!is_golden_closed && golden_.IsStray(g));
    // The summary has only finite elements.
    if (std::isfinite(g)) AddToSummary(g);
  }
  const auto targets = std::span(target_copy_).first(target_piece.size());
  const auto goldens = std::span(golden_copy_).first(golden_piece.size());
  pairs_.Update(targets, goldens);
  if (elements_.has_value()) elements_->Update(targets, goldens);
}

std::optional<OpenPairs> OpenPairAccumulator::Finish() const {
  const double closed_count = static_cast<double>(closed_count_);
  const bool are_many =
      are_softmaxed_ ||
      closed_count >= kClosedShare * static_cast<double>(place_count_);
  if (has_strays_ || has_other_rows_ || closed_count_ == 0 ||
      closed_count_ == place_count_ || !are_many || !target_.IsMaskOfScores() ||
      !golden_.IsMaskOfScores()) {
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
