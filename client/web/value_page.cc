// SPDX-License-Identifier: Apache-2.0
#include "client/web/value_page.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "client/ask/query/tensor_bytes.h"
#include "client/ask/text/text.h"
#include "client/web/compared_row.h"
#include "client/web/row_json.h"
#include "client/web/value_grid.h"
#include "protos/base/sample.h"
#include "protos/base/shape.h"
#include "protos/compute/number/element.h"

namespace msitd::web {
namespace {

using RequestJson = nlohmann::json;

// Bytes of a part of a tensor.
struct ByteRange {
  int64_t offset = 0;
  int64_t size = 0;
};

// One side of a row.
struct Side {
  bool is_present = false;
  std::string name;
  DType dtype = DType::kUnspecified;
  std::string bytes;  // Those that were read last.

  int64_t element_bytes() const { return ElementBytes(dtype); }
  // Digits that distinguish any two elements; 0: all.
  int digits() const { return compute::FitsFloat(dtype) ? 9 : 0; }
  Elements elements() const { return {dtype, std::as_bytes(std::span(bytes))}; }
  Elements part(int64_t first, int64_t count) const {
    const Elements all = elements();
    if (bytes.empty()) return all;
    const auto size = static_cast<size_t>(element_bytes());
    return {dtype, all.bytes.subspan(static_cast<size_t>(first) * size,
                                     static_cast<size_t>(count) * size)};
  }
};

// Digits of differences and shares.
constexpr int kDigits = 9;

std::string NumbersJson(const std::vector<double>& values, int digits) {
  std::vector<std::string> texts;
  texts.reserve(values.size());
  for (const double value : values) texts.push_back(NumberJson(value, digits));
  return fmt::format("[{}]", fmt::join(texts, ","));
}

// The tensors of a row, and how they are read.
class RowValues {
 public:
  RowValues(ask::Connection& connection, const ValuesRequest& request)
      : connection_(connection), request_(request) {}

  // `note()` is empty if the tensors can be read.
  ask::Outcome Find() {
    if (connection_.fanout() != nullptr) {
      return ask::DaemonError(grpc::StatusCode::UNIMPLEMENTED, "",
                              "values of several daemons are not read");
    }
    v1::Comparison comparison;
    MSITCTL_RETURN_IF_FAILED(
        connection_.AskByName(&v1::ComparisonService::Stub::GetComparison,
                              request_.comparison, comparison));
    v1::ComparisonRow row;
    MSITCTL_RETURN_IF_FAILED(
        FindRow(connection_, request_.comparison, request_.row, row));
    bool has_tensors = false;
    MSITCTL_RETURN_IF_FAILED(HaveTensors(connection_, comparison, has_tensors));
    if (!has_tensors) {
      note_ = "a run was deleted, or is on another daemon";
      return {};
    }
    if (row.has_golden()) SetSide(row.golden(), golden_);
    if (row.has_target()) SetSide(row.target(), target_);
    const auto& some = row.has_golden() ? row.golden() : row.target();
    shape_.assign(some.shape().begin(), some.shape().end());
    if (row.has_golden() && row.has_target() &&
        !std::equal(shape_.begin(), shape_.end(), row.target().shape().begin(),
                    row.target().shape().end())) {
      note_ = "the shapes differ";
    }
    count_ = static_cast<int64_t>(ElementCount(shape_));
    if (note_.empty() && count_ == 0) note_ = "there are no elements";
    return {};
  }

  // Reads the same part of both sides. `problem` stays empty if both have it.
  ask::Outcome Read(const ByteRange& elements, bool is_sample,
                    std::string& problem) {
    for (Side* side : {&golden_, &target_}) {
      if (!side->is_present) continue;
      const int64_t width = side->element_bytes();
      if (elements.size > kValueBytesMax / width) {
        problem = fmt::format("the slice spans {}, more than the limit of {}",
                              ask::HumanSize(width * elements.size),
                              ask::HumanSize(kValueBytesMax));
        return {};
      }
    }
    for (Side* side : {&golden_, &target_}) {
      if (!side->is_present) continue;
      const int64_t width = side->element_bytes();
      MSITCTL_RETURN_IF_FAILED(
          ReadSide({elements.offset * width, elements.size * width}, is_sample,
                   *side, problem));
      if (!problem.empty()) return {};
    }
    return {};
  }

  bool has_both() const { return golden_.is_present && target_.is_present; }
  const Side& golden() const { return golden_; }
  const Side& target() const { return target_; }
  const std::vector<int64_t>& shape() const { return shape_; }
  int64_t count() const { return count_; }
  const std::string& note() const { return note_; }

 private:
  void SetSide(const v1::ComparedTensor& tensor, Side& side) {
    side.is_present = true;
    side.name = tensor.name();
    side.dtype = static_cast<DType>(tensor.dtype());
    if (!note_.empty()) return;
    if (!tensor.view().empty()) {
      note_ = "the row compares a view of the tensor";
    } else if (!tensor.ranks().empty()) {
      note_ = fmt::format("the tensor was assembled from shards of {} ranks",
                          tensor.ranks_size());
    } else if (tensor.kind() != v1::RECORD_KIND_TENSOR) {
      note_ = "the row is about a value, not a tensor";
    } else if (!HasNumbers(side.dtype)) {
      note_ = fmt::format("{} elements are not drawn", DTypeName(side.dtype));
    }
  }

  ask::Outcome ReadSide(const ByteRange& range, bool is_sample, Side& side,
                        std::string& problem) {
    side.bytes.clear();
    v1::ReadTensorRequest request;
    request.set_name(side.name);
    request.set_offset_bytes(range.offset);
    request.set_limit_bytes(range.size);
    request.set_sample(is_sample);
    MSITCTL_RETURN_IF_FAILED(connection_.Connect());
    grpc::ClientContext context;
    context.set_deadline(connection_.UnaryDeadline());
    const ask::Interrupts::Hold hold(connection_.interrupts(), &context);
    const auto reader = connection_.stub<v1::TensorService::Stub>().ReadTensor(
        &context, request);
    v1::ReadTensorResponse response;
    const auto wanted = static_cast<size_t>(range.size);
    while (side.bytes.size() <= wanted && reader->Read(&response)) {
      side.bytes += response.data();
    }
    if (side.bytes.size() > wanted) context.TryCancel();
    const grpc::Status status = reader->Finish();
    const ask::Outcome outcome = connection_.OutcomeOf(status);
    if (side.bytes.size() == wanted && outcome.ok()) return {};
    if (ask::IsOfTensor(outcome)) {
      problem = outcome.error;
      return {};
    }
    if (side.bytes.size() <= wanted && !outcome.ok()) return outcome;
    return ask::DaemonError(grpc::StatusCode::DATA_LOSS, "",
                            fmt::format("the daemon sent {} of {} bytes",
                                        side.bytes.size(), wanted));
  }

  ask::Connection& connection_;
  const ValuesRequest& request_;
  Side golden_;
  Side target_;
  std::vector<int64_t> shape_;
  int64_t count_ = 0;
  std::string note_;
};

std::string DensityJson(const Density& density, bool is_sample) {
  std::vector<std::string> cells;
  cells.reserve(density.cells.size());
  for (const Density::Cell& cell : density.cells) {
    cells.push_back(fmt::format("[{},{},{}]", cell.x, cell.y, cell.count));
  }
  return fmt::format(
      R"({{"x_exponent":{},"x_step":{},"y_exponent":{},"y_step":{},)"
      R"("cells":[{}],"element_count":{},"non_finite_count":{},)"
      R"("is_sample":{}}})",
      density.x_exponent, density.x_step, density.y_exponent, density.y_step,
      fmt::join(cells, ","), density.element_count, density.non_finite_count,
      is_sample);
}

std::string LargestJson(const PairedElement& largest, const RowValues& values) {
  return fmt::format(
      R"({{"at":[{}],"golden":{},"target":{},"difference":{}}})",
      fmt::join(PositionOf(values.shape(), largest.element), ","),
      NumberJson(largest.golden, values.golden().digits()),
      NumberJson(largest.target, values.target().digits()),
      NumberJson(largest.difference, kDigits));
}

std::string SliceJson(const Picture& picture, const RowValues& values) {
  const auto side = [](const Side& one, const std::vector<double>& numbers) {
    return one.is_present ? NumbersJson(numbers, one.digits()) : "null";
  };
  return fmt::format(
      R"({{"lines":{},"columns":{},"line_step":{},"column_step":{},)"
      R"("golden":{},"target":{},"difference":{}}})",
      picture.lines, picture.columns, picture.line_step, picture.column_step,
      side(values.golden(), picture.golden),
      side(values.target(), picture.target),
      values.has_both() ? NumbersJson(picture.difference, kDigits) : "null");
}

// Fills the answer of page.values member by member.
class ValuesAnswer {
 public:
  ValuesAnswer(ask::Connection& connection, const ValuesRequest& request)
      : request_(request), values_(connection, request) {}

  ask::Outcome Run() {
    MSITCTL_RETURN_IF_FAILED(values_.Find());
    note_ = values_.note();
    if (!note_.empty()) return {};
    if (!request_.only_slice || !request_.at.has_value()) {
      MSITCTL_RETURN_IF_FAILED(Measure());
    }
    return Draw();
  }

  std::string ToJson() const {
    return fmt::format(
        R"({{"shape":[{}],"note":{},"density":{},"largest":{},"dims":{},)"
        R"("at":{},"slice":{},"slice_note":{}}})",
        fmt::join(values_.shape(), ","), QuotedJson(note_), density_, largest_,
        dims_, at_, slice_, QuotedJson(slice_note_));
  }

 private:
  ask::Outcome Measure() {
    if (!values_.has_both()) {
      note_ = "only one run has the tensor";
      return {};
    }
    std::string problem;
    MSITCTL_RETURN_IF_FAILED(
        values_.Read({0, values_.count()}, /*is_sample=*/false, problem));
    has_all_ = problem.empty();
    if (!has_all_) {
      std::string sample_problem;
      const auto sample_count = static_cast<int64_t>(
          SampleCount(static_cast<uint64_t>(values_.count())));
      MSITCTL_RETURN_IF_FAILED(values_.Read({0, sample_count},
                                            /*is_sample=*/true,
                                            sample_problem));
      if (!sample_problem.empty()) {
        note_ = sample_problem;
        return {};
      }
    }
    Density density = MeasureDensity(values_.golden().elements(),
                                     values_.target().elements());
    if (!has_all_) {
      density.largest.element *= static_cast<int64_t>(
          SampleStep(static_cast<uint64_t>(values_.count())));
    }
    largest_element_ = density.largest.element;
    density_ = DensityJson(density, !has_all_);
    largest_ = LargestJson(density.largest, values_);
    return {};
  }

  ask::Outcome MakeSlice(Slice& slice) const {
    slice = DefaultSlice(values_.shape(), largest_element_);
    const auto rank = static_cast<int64_t>(slice.shape.size());
    if (request_.dims.has_value()) {
      const auto& dims = *request_.dims;
      const bool is_valid = dims.size() == 2 && dims[0] != dims[1] &&
                            dims[0] >= -1 && dims[1] >= 0 &&
                            std::max(dims[0], dims[1]) < rank;
      if (!is_valid) {
        return ask::UsageError("dims: two different dimensions are required");
      }
      slice.line_dim = static_cast<int>(dims[0]);
      slice.column_dim = static_cast<int>(dims[1]);
    }
    if (!request_.at.has_value()) return {};
    slice.at = *request_.at;
    for (size_t i = 0; i < slice.at.size(); ++i) {
      if (slice.at.size() != slice.shape.size() || slice.at[i] < 0 ||
          slice.at[i] >= slice.shape[i]) {
        return ask::UsageError("at: this position does not exist");
      }
    }
    if (slice.at.size() == slice.shape.size()) return {};
    return ask::UsageError("at: one position for each dimension is required");
  }

  ask::Outcome Draw() {
    Slice slice;
    MSITCTL_RETURN_IF_FAILED(MakeSlice(slice));
    dims_ = fmt::format("[{},{}]", slice.line_dim, slice.column_dim);
    at_ = fmt::format("[{}]", fmt::join(slice.at, ","));
    const int64_t first = slice.first();
    const int64_t count = slice.last() - first + 1;
    int64_t skipped = first;
    if (!has_all_) {
      MSITCTL_RETURN_IF_FAILED(values_.Read({first, count},
                                            /*is_sample=*/false, slice_note_));
      if (!slice_note_.empty()) return {};
      skipped = 0;
    }
    slice_ = SliceJson(MakePicture(slice, values_.golden().part(skipped, count),
                                   values_.target().part(skipped, count)),
                       values_);
    return {};
  }

  const ValuesRequest& request_;
  RowValues values_;
  bool has_all_ = false;  // Whether all bytes of both sides were read.
  int64_t largest_element_ = -1;
  std::string note_;
  std::string slice_note_;
  std::string density_ = "null";
  std::string largest_ = "null";
  std::string dims_ = "null";
  std::string at_ = "null";
  std::string slice_ = "null";
};

// The elements of one side along the last dimension. NaN has no rank.
class Logits {
 public:
  Logits() = default;
  explicit Logits(const Elements& elements)
      : values_(static_cast<size_t>(elements.count())) {
    compute::ToDouble(elements.dtype, elements.bytes.data(), values_.size(),
                      values_.data());
    for (size_t i = 0; i < values_.size(); ++i) {
      if (!std::isnan(values_[i])) top_.push_back(i);
    }
    nan_count_ = values_.size() - top_.size();
    if (top_.empty()) return;
    const auto count = std::min(kTopCount, top_.size());
    std::partial_sort(
        top_.begin(), top_.begin() + static_cast<std::ptrdiff_t>(count),
        top_.end(), [this](size_t a, size_t b) { return Precedes(a, b); });
    largest_ = values_[top_.front()];
    for (const size_t i : top_) sum_ += std::exp(values_[i] - largest_);
    top_.resize(count);
  }

  const std::vector<size_t>& top() const { return top_; }
  size_t nan_count() const { return nan_count_; }
  bool HasRank(size_t id) const {
    return id < values_.size() && !std::isnan(values_[id]);
  }

  // NaN is last, and equal logits are in the order of their numbers.
  bool Precedes(size_t a, size_t b) const {
    if (!HasRank(a) || !HasRank(b)) {
      return HasRank(a) != HasRank(b) ? HasRank(a) : a < b;
    }
    return values_[a] != values_[b] ? values_[a] > values_[b] : a < b;
  }

  std::string ToJson(size_t id, int digits) const {
    if (values_.empty()) return "null";
    std::string share = "null";
    std::string rank = "null";
    if (HasRank(id)) {
      share = NumberJson(std::exp(values_[id] - largest_) / sum_, kDigits);
      size_t before = 0;
      for (size_t i = 0; i < values_.size(); ++i) before += Precedes(i, id);
      rank = std::to_string(before);
    }
    return fmt::format(R"({{"value":{},"share":{},"rank":{}}})",
                       NumberJson(values_[id], digits), share, rank);
  }

 private:
  std::vector<double> values_;
  std::vector<size_t> top_;
  size_t nan_count_ = 0;
  double largest_ = 0;
  double sum_ = 0;
};

std::string TopListJson(const RowValues& values, const Logits& golden,
                        const Logits& target) {
  std::set<size_t> ids(golden.top().begin(), golden.top().end());
  ids.insert(target.top().begin(), target.top().end());
  const Logits& by = golden.top().empty() ? target : golden;
  std::vector<size_t> ordered(ids.begin(), ids.end());
  std::sort(ordered.begin(), ordered.end(),
            [&by](size_t a, size_t b) { return by.Precedes(a, b); });
  std::vector<std::string> items;
  for (const size_t id : ordered) {
    items.push_back(fmt::format(R"({{"id":{},"golden":{},"target":{}}})", id,
                                golden.ToJson(id, values.golden().digits()),
                                target.ToJson(id, values.target().digits())));
  }
  return fmt::format(R"("top":[{}],"nan_counts":[{},{}])",
                     fmt::join(items, ","), golden.nan_count(),
                     target.nan_count());
}

bool IsPosition(const RequestJson& value) {
  return value.is_number_unsigned() && value.get<uint64_t>() <= uint64_t{1}
                                                                    << 60;
}

bool ParsePositions(const RequestJson& value, int64_t least,
                    std::optional<std::vector<int64_t>>& out) {
  if (!value.is_array() || value.size() > 32) return false;
  out.emplace();
  for (const RequestJson& item : value) {
    if (!IsPosition(item) && !(least < 0 && item == least)) return false;
    out->push_back(item.get<int64_t>());
  }
  return true;
}

}  // namespace

ask::Outcome ParseValuesRequest(const std::string& text, ValuesRequest& out) {
  out = {};
  const RequestJson body =
      RequestJson::parse(text, nullptr, /*allow_exceptions=*/false);
  bool is_valid =
      body.is_object() && body.contains("comparison") && body.contains("row");
  if (is_valid) {
    for (const auto& [key, value] : body.items()) {
      if (key == "comparison" && value.is_string()) {
        out.comparison = value;
      } else if (key == "row" && IsPosition(value)) {
        out.row = value;
      } else if (key == "only_slice" && value.is_boolean()) {
        out.only_slice = value;
      } else if (key == "dims") {
        is_valid = is_valid && ParsePositions(value, -1, out.dims);
      } else if (key == "at") {
        is_valid = is_valid && ParsePositions(value, 0, out.at);
      } else {
        is_valid = false;
      }
    }
  }
  if (is_valid && !out.comparison.empty()) return {};
  return ask::UsageError(
      R"(the body is not {"comparison": NAME, "row": N, "dims": [N, N], )"
      R"("at": [N, ...], "only_slice": BOOL})");
}

ask::Outcome ValuesPage(ask::Connection& connection,
                        const ValuesRequest& request, std::string& json) {
  ValuesAnswer answer(connection, request);
  MSITCTL_RETURN_IF_FAILED(answer.Run());
  json = answer.ToJson();
  return {};
}

ask::Outcome LogitsPage(ask::Connection& connection,
                        const ValuesRequest& request, std::string& json) {
  RowValues values(connection, request);
  MSITCTL_RETURN_IF_FAILED(values.Find());
  std::string note = values.note();
  const std::vector<int64_t>& shape = values.shape();
  if (note.empty() && shape.empty()) note = "the tensor is a single number";
  std::vector<int64_t> at = request.at.value_or(std::vector<int64_t>());
  std::string top = R"("top":[],"nan_counts":[0,0])";
  if (note.empty() && shape.back() > kLogitCountMax) {
    note = fmt::format(
        "the last dimension has {} elements, more than the limit of {}",
        shape.back(), kLogitCountMax);
  }
  if (note.empty()) {
    Slice slice;
    slice.shape = shape;
    slice.column_dim = static_cast<int>(shape.size()) - 1;
    const bool has_position = request.at.has_value();
    if (!has_position) {
      for (const int64_t extent : shape) at.push_back(extent - 1);
    }
    for (size_t i = 0; i < shape.size(); ++i) {
      if (at.size() != shape.size() || at[i] >= shape[i]) {
        return ask::UsageError("at: this position does not exist");
      }
    }
    slice.at = at;
    MSITCTL_RETURN_IF_FAILED(values.Read({slice.first(), slice.columns()},
                                         /*is_sample=*/false, note));
  }
  if (note.empty()) {
    const auto logits = [](const Side& side) {
      return side.is_present ? Logits(side.elements()) : Logits();
    };
    top = TopListJson(values, logits(values.golden()), logits(values.target()));
  }
  json = fmt::format(R"({{"shape":[{}],"at":[{}],{},"note":{}}})",
                     fmt::join(shape, ","), fmt::join(at, ","), top,
                     QuotedJson(note));
  return {};
}

}  // namespace msitd::web
