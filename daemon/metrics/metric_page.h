// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "daemon/metrics/latencies.h"
#include "daemon/metrics/metric_catalog.h"

namespace msitd::metrics {

// Writes values in Prometheus' text format, version 0.0.4. Metrics come in the
// order of the catalog; each at most once for each value of its label.
// Thread-compatible.
class MetricPage {
 public:
  // A metric without a label.
  void Add(MetricId id, double value) { Put(id, {}, value); }
  // A metric with one. `label_value` may hold any bytes.
  void Add(MetricId id, std::string_view label_value, double value) {
    Put(id, label_value, value);
  }
  // A histogram, with or without a label.
  void Add(MetricId id, const Latencies::Snapshot& latencies) {
    Put(id, {}, latencies);
  }
  void Add(MetricId id, std::string_view label_value,
           const Latencies::Snapshot& latencies) {
    Put(id, label_value, latencies);
  }

  const std::string& text() const { return text_; }

 private:
  void Put(MetricId id, std::string_view label_value, double value);
  void Put(MetricId id, std::string_view label_value,
           const Latencies::Snapshot& latencies);
  // Writes help and type when a metric comes first.
  const MetricInfo& Begin(MetricId id);

  std::string text_;
  std::optional<MetricId> last_;
};

}  // namespace msitd::metrics
