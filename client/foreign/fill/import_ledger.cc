// SPDX-License-Identifier: Apache-2.0
#include "client/foreign/fill/import_ledger.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <span>
#include <system_error>
#include <utility>

#include "client/foreign/fill/tensor_record.h"
#include "protos/base/utf8.h"
#include "protos/chunk/chunk.h"
#include "protos/status/status.h"

namespace msitd::fill {
namespace {

using Json = nlohmann::json;

constexpr int kVersion = 1;
constexpr char kHead[] = "msitd_import_ledger";

// JSON contains only text, but a path may contain any bytes.
std::string AsText(std::string_view path) {
  if (IsValidUtf8(path)) return std::string(path);
  std::string text;
  for (const char byte : path) {
    const auto value = static_cast<unsigned char>(byte);
    if (value < 0x80) {
      text += byte;
    } else {
      text += fmt::format("\\x{:02x}", value);
    }
  }
  return text;
}

std::string TextAt(const Json& line, const char* name) {
  const auto at = line.find(name);
  return at != line.end() && at->is_string() ? at->get<std::string>() : "";
}

template <typename Number>
Number NumberAt(const Json& line, const char* name) {
  const auto at = line.find(name);
  return at != line.end() && at->is_number_integer() ? at->get<Number>() : 0;
}

// Returns 0 if it is not a hash.
uint64_t HashAt(const Json& line, const char* name) {
  const std::string text = TextAt(line, name);
  uint64_t hash = 0;
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, hash, 16);
  return error == std::errc() && stop == end ? hash : 0;
}

}  // namespace

uint64_t LedgerKeyOf(const TensorKey& key) {
  const std::string text = TextOf(key);
  return chunk::HashBytes(std::as_bytes(std::span(text))).low;
}

std::string ImportLedger::PartName(size_t index) {
  return index == 0 ? "import-ledger.jsonl"
                    : fmt::format("import-ledger-{}.jsonl", index + 1);
}

ContentHash ImportLedger::KeyOf(const LedgerEntry& entry,
                                std::string_view scope) const {
  // A length before each text makes the key unambiguous.
  const std::string key =
      fmt::format("{} {}{} {}{} {}{} {} {}", scope.size(), scope,
                  entry.path.size(), entry.path, entry.tensor.size(),
                  entry.tensor, entry.values, entry.bytes, entry.mtime_ns);
  return chunk::HashBytes(std::as_bytes(std::span(key)));
}

std::string ImportLedger::LineOf(const LedgerEntry& entry) const {
  Json line;
  if (entry.values.empty()) {
    line["file"] = entry.path;
    line["bytes"] = entry.bytes;
    line["mtime_ns"] = entry.mtime_ns;
    if (!entry.tensor.empty()) line["tensor"] = AsText(entry.tensor);
  } else {
    line["values"] = entry.values;
  }
  if (entry.key != 0) line["key"] = fmt::format("{:016x}", entry.key);
  if (!scope_.empty()) line["as"] = AsText(scope_);
  if (!entry.problem.empty()) line["problem"] = AsText(entry.problem);
  line["records"] = entry.record_count;
  return line.dump() + "\n";
}

void ImportLedger::LoadLine(std::string_view text) {
  const Json line = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!line.is_object()) return;
  if (line.contains(kHead)) {
    loaded_source_ = TextAt(line, "source");
    return;
  }
  LedgerEntry entry;
  entry.path = TextAt(line, "file");
  entry.tensor = TextAt(line, "tensor");
  entry.values = TextAt(line, "values");
  entry.bytes = NumberAt<uint64_t>(line, "bytes");
  entry.mtime_ns = NumberAt<int64_t>(line, "mtime_ns");
  if (entry.path.empty() == entry.values.empty()) return;
  entry.key = HashAt(line, "key");
  entry.problem = TextAt(line, "problem");
  Know(entry, TextAt(line, "as"));
}

void ImportLedger::Know(const LedgerEntry& entry, std::string_view scope) {
  const ContentHash key = KeyOf(entry, scope);
  known_.emplace(key, entry.key);
  if (!entry.problem.empty()) problems_[key] = entry.problem;
  if (!is_current_) return;
  if (entry.key != 0) keys_.insert(entry.key);
  if (!entry.path.empty()) paths_.insert(PathHash(entry.path, scope));
}

uint64_t ImportLedger::PathHash(const std::string& path,
                                std::string_view scope) const {
  const std::string key =
      fmt::format("{} {}{} {}", scope.size(), scope, path.size(), path);
  return chunk::HashBytes(std::as_bytes(std::span(key))).low;
}

bool ImportLedger::HasPath(const std::string& path) const {
  return paths_.contains(PathHash(AsText(path), AsText(scope_)));
}

void ImportLedger::Load(std::string_view text) {
  for (std::string_view rest = text; !rest.empty();) {
    const size_t end = rest.find('\n');
    LoadLine(rest.substr(0, end));
    rest.remove_prefix(end == std::string_view::npos ? rest.size() : end + 1);
  }
  first_part_ = loaded_count_++;
  parts_.assign(1, std::string(text));
  if (!text.ends_with('\n')) parts_.back() += '\n';
}

bool ImportLedger::Has(const LedgerEntry& entry, std::string& problem) const {
  LedgerEntry as_text = entry;
  as_text.path = AsText(entry.path);
  as_text.tensor = AsText(entry.tensor);
  const ContentHash key = KeyOf(as_text, AsText(scope_));
  const auto [begin, end] = known_.equal_range(key);
  if (begin == end) return false;
  const bool is_same = std::any_of(begin, end, [&entry](const auto& known) {
    return known.second == entry.key || known.second == 0 || entry.key == 0;
  });
  if (!is_same) {
    problem = kOtherKey;
    return true;
  }
  const auto at = problems_.find(key);
  problem = at == problems_.end() ? "" : at->second;
  return true;
}

void ImportLedger::Add(const LedgerEntry& entry) {
  LedgerEntry as_text = entry;
  as_text.path = AsText(entry.path);
  added_ += LineOf(as_text);
  if (!is_current_) return;
  as_text.tensor = AsText(entry.tensor);
  unsettled_.push_back({std::move(as_text)});
}

void ImportLedger::Mark() {
  marked_ += std::exchange(added_, "");
  for (Unsettled& one : unsettled_) one.is_marked = true;
}

void ImportLedger::Forget() {
  added_.clear();
  marked_.clear();
  unsettled_.clear();
}

absl::Status ImportLedger::Settle() {
  if (marked_.empty()) return absl::OkStatus();
  if (parts_.empty()) {
    parts_.push_back(Json({{kHead, kVersion}, {"source", source_}}).dump() +
                     "\n");
  } else if (parts_.back().size() >= kPartBytesMax) {
    if (first_part_ + parts_.size() >= kPartsMax) {
      return MakeStatus(absl::StatusCode::kResourceExhausted,
                        "a run can store its imports in at most {} attachments",
                        kPartsMax);
    }
    if (is_saved_) {
      ++first_part_;
      parts_.clear();
    }
    parts_.emplace_back();
  }
  parts_.back() += std::exchange(marked_, "");
  is_saved_ = false;
  const std::string scope = AsText(scope_);
  const auto open =
      std::stable_partition(unsettled_.begin(), unsettled_.end(),
                            [](const Unsettled& one) { return one.is_marked; });
  for (auto one = unsettled_.begin(); one != open; ++one) {
    Know(one->entry, scope);
  }
  unsettled_.erase(unsettled_.begin(), open);
  return absl::OkStatus();
}

std::optional<ImportLedger::LedgerPart> ImportLedger::Unsaved() const {
  if (is_saved_) return std::nullopt;
  return LedgerPart{PartName(first_part_), parts_.front()};
}

void ImportLedger::SetSaved() {
  if (parts_.size() == 1) {
    is_saved_ = true;
    return;
  }
  parts_.erase(parts_.begin());
  ++first_part_;
}

}  // namespace msitd::fill
