// SPDX-License-Identifier: Apache-2.0
#include <fmt/format.h>

#include <span>
#include <utility>

#include "client/foreign/fill/import_job.h"
#include "client/foreign/fill/tensor_record.h"
#include "client/foreign/trees/tree_base.h"
#include "protos/status/status.h"

// Derived tensors, which are recorded instead of the tensors of a file.
namespace msitd::fill {

std::string DerivedIndex(std::string_view index, std::string_view name) {
  return fmt::format("{}~{}", index, name);
}

absl::StatusOr<std::vector<DerivedTensor>> ImportJob::Derive(
    const formats::ForeignTensor& tensor, const TensorKey& key) {
  MSITD_RETURN_IF_ERROR(trees::CheckTensorKey(key));
  const uint64_t bytes_max = options_.deriver->tensor_bytes_max();
  if (tensor.bytes > bytes_max) {
    return MakeStatus(absl::StatusCode::kResourceExhausted,
                      "it has {} bytes; the maximum for a function is {}",
                      tensor.bytes, bytes_max);
  }
  std::string bytes(tensor.bytes, '\0');
  if (!feed_.source().Read(std::as_writable_bytes(std::span(bytes)))) {
    return feed_.source_status();
  }
  return options_.deriver->Derive(key, tensor.dtype, tensor.shape, bytes);
}

absl::Status ImportJob::SendDerived(const trees::TreeEntry& entry,
                                    const formats::ForeignTensor& tensor,
                                    const TensorKey& key,
                                    LedgerEntry& in_ledger,
                                    absl::Status& problem) {
  const auto derived = Derive(tensor, key);
  problem = derived.status();
  if (absl::IsCancelled(problem) || absl::IsUnknown(problem)) return problem;
  if (!problem.ok()) {
    ++counts_.underived_count;
    return absl::OkStatus();
  }
  if (derived->empty()) ++counts_.unkept_count;
  for (const DerivedTensor& one : *derived) {
    TensorKey own = key;
    own.index = DerivedIndex(key.index, one.name);
    libmsit::TensorView view = ViewOf(own, entry);
    view.dtype = one.dtype;
    view.dims = one.shape;
    view.data = reinterpret_cast<const std::byte*>(one.bytes.data());
    if (!options_.is_dry_run) {
      MSITD_RETURN_IF_ERROR(Send(own.rank, view, problem));
    }
    if (!problem.ok()) return absl::OkStatus();
    ++in_ledger.record_count;
    doubled_.Add(own, entry.file);
    ++counts_.tensor_count;
    ++counts_.derived_count;
    counts_.size_bytes += static_cast<int64_t>(one.bytes.size());
  }
  return absl::OkStatus();
}

}  // namespace msitd::fill
