// SPDX-License-Identifier: Apache-2.0
#include "daemon/compute/metric_table.h"

#include <iterator>

namespace msitd::compute {
namespace {

using enum MetricFamily;

constexpr MetricInfo kTable[] = {
    {"cosine", true, "", kFused, 0, true, true},
    {"max_abs", false, "value", kFused, 0, true},
    {"mean_abs", false, "value", kFused, 0, true},
    {"max_rel", false, "", kFused, 0, true},
    {"mean_rel", false, "", kFused, 0, true},
    {"rmse", false, "value", kFused, 0, true},
    {"nl2", false, "", kFused, 0, true},
    {"kl", false, "nats", kFused, 0, true, true},
    {"sqnr_db", true, "dB", kFused, 0, false},
    {"mismatch_count", false, "elements", kFused, 0, false},
    {"nan_mismatch_count", false, "elements", kFused, 0, false},
    {"inf_mismatch_count", false, "elements", kFused, 0, false},
    {"rel", false, "", kFused, 0, false},
    {"l2_distance", false, "value", kFused, 0, false},
    {"row_nl2_max", false, "", kFused, 0, false},
    {"row_nl2_p50", false, "", kFused, 0, false},
    {"channel_nl2_max", false, "", kFused, 0, false, true},
    {"channel_nl2_p50", false, "", kFused, 0, false, true},
    {"scaled_max_abs", false, "", kDerived, 0, false},
    {"psnr_db", true, "dB", kDerived, 0, false, true},
    {"outlier_count", false, "elements", kElement, kToleranceSet, false},
    {"atol_needed", false, "value", kElement, kToleranceSet, false},
    {"rtol_needed", false, "", kElement, kToleranceSet, false},
    {"max_ulp", false, "ulp", kElement, kUlpSet, false},
    {"mean_ulp", false, "ulp", kElement, kUlpSet, false},
    {"within_1_permille", true, "", kElement, kShareSet, false},
    {"within_5_permille", true, "", kElement, kShareSet, false},
    {"abs_p50", false, "value", kElement, kPercentileSet, false},
    {"abs_p90", false, "value", kElement, kPercentileSet, false},
    {"abs_p95", false, "value", kElement, kPercentileSet, false},
    {"abs_p99", false, "value", kElement, kPercentileSet, false},
    {"pearson", true, "", kElement, kPearsonSet, false, true},
    {"bitwise_mismatch_count", false, "elements", kElement, kBitSet, false},
    {"argmax_agreement", true, "", kElement, kTopKSet, false, true},
    {"top_k_overlap", true, "", kElement, kTopKSet, false, true},
    {"row_kl_max", false, "nats", kElement, kTopKSet, false, true},
    {"top1_margin_flip", false, "", kElement, kTopKSet, false, true},
    {"msit_cosine", true, "", kElement, kMsitSet, false, true},
    {"msit_max_rel", false, "", kElement, kMsitSet, false},
    {"msit_mean_rel", false, "", kElement, kMsitSet, false},
    {"msit_max_abs", false, "value", kElement, kMsitSet, false},
    {"msit_mean_abs", false, "value", kElement, kMsitSet, false},
    {"msit_euclid", false, "value", kElement, kMsitSet, false},
    {"msit_kl", false, "nats", kElement, kMsitSet, false, true},
    {"msprobe_cosine", true, "", kElement, kMsprobeSet, false, true},
    {"msprobe_euclid", false, "value", kElement, kMsprobeSet, false},
    {"msprobe_max_abs", false, "value", kElement, kMsprobeSet, false},
    {"msprobe_max_rel", false, "", kElement, kMsprobeSet, false},
    {"msprobe_within_1_permille", true, "", kElement, kMsprobeSet, false},
    {"msprobe_within_5_permille", true, "", kElement, kMsprobeSet, false},
};

static_assert(std::size(kTable) ==
              kMetricCount + kDerivedMetricCount + kElementMetricCount);

}  // namespace

std::span<const MetricInfo> MetricTable() { return kTable; }

}  // namespace msitd::compute
