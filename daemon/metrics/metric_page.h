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

// Writes values in Prometheus' text format, version 0.0.4. Metrics must be
// added in the order of the catalog, and each at most once for each value of
// its label. Thread-compatible.
class MetricPage {
 public:
  // Adds a metric without a label.
  void Add(MetricId id, double value) { Put(id, {}, value); }
  // Adds a metric with a label. `label_value` may contain any bytes.
  void Add(MetricId id, std::string_view label_value, double value) {
    Put(id, label_value, value);
  }
  // Adds a histogram, with or without a label.
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
  // Writes the help and type lines before the first value of a metric.
  const MetricInfo& Begin(MetricId id);

  std::string text_;
  std::optional<MetricId> last_;
};

}  // namespace msitd::metrics
