// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/view/gather.h"

#include <algorithm>
#include <iterator>
#include <span>
#include <utility>

#include "protos/base/check.h"
#include "protos/base/shape.h"

namespace msitd::compare {

// The tensors that the positions of a level refer to: a source, or tensors that
// are concatenated. A row has the elements of part i before `ends[i]`, after
// those of the parts before it.
struct Gather::Level {
  uint32_t leaf = 0;
  std::vector<Gather> parts;  // Empty for a source.
  std::vector<uint64_t> ends;
  // The sources that the parts read, ascending. Empty for a source.
  std::vector<uint32_t> leaves;
  bool uses_leaf_twice = false;

  bool is_leaf() const { return parts.empty(); }

  std::span<const uint32_t> Leaves() const {
    return is_leaf() ? std::span(&leaf, 1) : std::span(leaves);
  }

  bool Uses(uint32_t number) const {
    const std::span<const uint32_t> all = Leaves();
    return std::binary_search(all.begin(), all.end(), number);
  }

  // Adds the sources of a part. Returns whether there are new ones only.
  bool AddLeaves(std::span<const uint32_t> more) {
    if (leaves.empty() || leaves.back() < more.front()) {
      leaves.insert(leaves.end(), more.begin(), more.end());
      return true;
    }
    if (std::includes(leaves.begin(), leaves.end(), more.begin(), more.end())) {
      return false;
    }
    std::vector<uint32_t> all;
    std::set_union(leaves.begin(), leaves.end(), more.begin(), more.end(),
                   std::back_inserter(all));
    const bool are_new = all.size() == leaves.size() + more.size();
    leaves = std::move(all);
    return are_new;
  }

  void VisitRange(uint64_t from, uint64_t count, uint64_t to,
                  Visit visit) const {
    while (count > 0) {
      const uint64_t row = from / ends.back();
      uint64_t at = from % ends.back();
      auto part = static_cast<size_t>(
          std::upper_bound(ends.begin(), ends.end(), at) - ends.begin());
      for (; count > 0 && part < parts.size(); ++part) {
        const uint64_t first = part == 0 ? 0 : ends[part - 1];
        const uint64_t length = ends[part] - first;
        const uint64_t step = std::min(count, ends[part] - at);
        if (step == 0) continue;
        parts[part].VisitRunsAt(row * length + at - first, step, to, visit);
        at += step;
        from += step;
        to += step;
        count -= step;
      }
    }
  }
};

Gather Gather::OfLeaf(uint32_t leaf, std::vector<int64_t> shape) {
  Gather out;
  auto below = std::make_shared<Level>();
  below->leaf = leaf;
  out.below_ = std::move(below);
  uint64_t stride = 1;
  out.dims_.resize(shape.size());
  for (size_t i = shape.size(); i-- > 0;) {
    out.dims_[i] = {static_cast<uint64_t>(shape[i]), stride};
    stride *= out.dims_[i].size;
  }
  out.Merge();
  return out;
}

Gather Gather::Concat(const std::vector<Gather>& parts, size_t dim) {
  MSITD_CHECK(!parts.empty() && dim < parts.front().dims_.size());
  auto below = std::make_shared<Level>();
  std::vector<int64_t> shape = parts.front().shape();
  shape[dim] = 0;
  uint64_t inner = 1;
  for (size_t i = dim + 1; i < shape.size(); ++i) {
    inner *= static_cast<uint64_t>(shape[i]);
  }
  bool keeps_all = true;
  for (const Gather& part : parts) {
    const uint64_t size = part.dims_[dim].size;
    shape[dim] += static_cast<int64_t>(size);
    const bool are_new = below->AddLeaves(part.below_->Leaves());
    keeps_all = keeps_all && part.keeps_all_ && are_new;
    below->uses_leaf_twice = below->uses_leaf_twice || !are_new;
    below->parts.push_back(part);
    const uint64_t before = below->ends.empty() ? 0 : below->ends.back();
    below->ends.push_back(before + size * inner);
  }
  Gather out = OfLeaf(0, std::move(shape));
  out.below_ = std::move(below);
  out.keeps_all_ = keeps_all;
  return out;
}

Gather Gather::OfLeavesFrom(uint32_t first) const {
  if (first == 0) return *this;
  Gather out = *this;
  auto level = std::make_shared<Level>(*below_);
  level->leaf += first;
  for (uint32_t& leaf : level->leaves) leaf += first;
  for (Gather& part : level->parts) part = part.OfLeavesFrom(first);
  out.below_ = std::move(level);
  return out;
}

std::vector<int64_t> Gather::shape() const {
  std::vector<int64_t> out;
  out.reserve(dims_.size());
  for (const Dim& dim : dims_) out.push_back(static_cast<int64_t>(dim.size));
  return out;
}

uint64_t Gather::element_count() const { return ElementCount(shape()); }

void Gather::Permute(std::span<const size_t> order) {
  std::vector<Dim> dims;
  dims.reserve(order.size());
  for (const size_t dim : order) dims.push_back(dims_[dim]);
  dims_ = std::move(dims);
  Merge();
}

void Gather::Slice(size_t dim, int64_t begin, int64_t end) {
  const auto size = static_cast<uint64_t>(end - begin);
  keeps_all_ = keeps_all_ && size == dims_[dim].size;
  dims_[dim].size = size;
  offset_ += static_cast<uint64_t>(begin) * dims_[dim].stride;
  Merge();
}

void Gather::Reshape(const std::vector<int64_t>& shape) {
  if (TryReshape(shape)) return;
  const Gather below = *this;
  // A single part with all elements only renumbers them.
  *this = OfLeaf(0, shape);
  auto level = std::make_shared<Level>();
  level->parts = {below};
  level->ends = {below.element_count()};
  level->AddLeaves(below.below_->Leaves());
  below_ = std::move(level);
  keeps_all_ = below.keeps_all_;
}

void Gather::Repeat(size_t dim, int64_t count) {
  MSITD_CHECK(dims_[dim].size == 1);
  keeps_all_ = keeps_all_ && count == 1;
  dims_[dim] = {static_cast<uint64_t>(count), 0};
  Merge();
}

bool Gather::TryReshape(const std::vector<int64_t>& shape) {
  std::vector<Dim> dims(shape.size());
  for (size_t i = 0; i < shape.size(); ++i) {
    dims[i].size = static_cast<uint64_t>(shape[i]);
  }
  if (element_count() != 0) {
    // Both shapes are divided from the end, a merged dimension at a time.
    size_t next = dims.size();
    for (size_t i = merged_.size(); i-- > 0;) {
      uint64_t rest = merged_[i].size;
      uint64_t stride = merged_[i].stride;
      while (rest > 1) {
        if (next == 0) return false;
        Dim& dim = dims[--next];
        if (rest % dim.size != 0) return false;
        dim.stride = stride;
        stride *= dim.size;
        rest /= dim.size;
      }
    }
  }
  dims_ = std::move(dims);
  Merge();
  return true;
}

void Gather::Merge() {
  merged_.clear();
  for (const Dim& dim : dims_) {
    if (dim.size == 1) continue;
    if (!merged_.empty() && merged_.back().stride == dim.stride * dim.size) {
      merged_.back() = {merged_.back().size * dim.size, dim.stride};
    } else {
      merged_.push_back(dim);
    }
  }
  if (merged_.empty()) merged_.push_back({1, 1});
}

bool Gather::uses(uint32_t leaf) const { return below_->Uses(leaf); }

bool Gather::is_identity() const {
  return below_->is_leaf() && below_->leaf == 0 && keeps_all_ && offset_ == 0 &&
         merged_.size() == 1 && merged_.front().stride == 1;
}

bool Gather::is_ascending() const {
  for (size_t i = 1; i < merged_.size(); ++i) {
    if (merged_[i - 1].stride < merged_[i].stride * merged_[i].size) {
      return false;
    }
  }
  return !below_->uses_leaf_twice &&
         std::all_of(below_->parts.begin(), below_->parts.end(),
                     [](const Gather& part) { return part.is_ascending(); });
}

void Gather::VisitRuns(uint64_t begin, uint64_t count, Visit visit) const {
  VisitRunsAt(begin, count, 0, visit);
}

Gather Gather::Sorted() const {
  Gather out = *this;
  std::erase_if(out.dims_, [](const Dim& dim) {
    return dim.stride == 0 && dim.size != 0;
  });
  std::stable_sort(
      out.dims_.begin(), out.dims_.end(),
      [](const Dim& a, const Dim& b) { return a.stride > b.stride; });
  out.Merge();
  return out;
}

uint64_t Gather::CountBelow() const {
  uint64_t out = 0;
  for (const Gather& part : below_->parts) out += part.element_count();
  return out;
}

bool Gather::VisitElements(uint64_t runs_max, Visit visit) const {
  const Gather sorted = Sorted();
  const uint64_t count = sorted.element_count();
  if (count == 0) return true;
  if (below_->is_leaf()) {
    const size_t dims = sorted.merged_.size();
    uint64_t blocks = 1;
    for (size_t i = 0; i + 2 < dims; ++i) blocks *= sorted.merged_[i].size;
    if (dims > 1 && sorted.merged_.back().stride != 1) {
      blocks *= sorted.merged_[dims - 2].size;
    }
    if (blocks > runs_max) return false;
    sorted.VisitRuns(0, count, visit);
    return true;
  }
  if (count == CountBelow()) {
    return std::all_of(below_->parts.begin(), below_->parts.end(),
                       [&](const Gather& part) {
                         return part.VisitElements(runs_max, visit);
                       });
  }
  // Bounds the runs that are visited before the limit is checked.
  constexpr uint64_t kElementsPerCheck = uint64_t{1} << 12;
  uint64_t visited = 0;
  for (uint64_t begin = 0; begin < count; begin += kElementsPerCheck) {
    if (visited > runs_max) return false;
    sorted.VisitRuns(begin, std::min(kElementsPerCheck, count - begin),
                     [&](const GatherRun& run) {
                       ++visited;
                       visit(run);
                     });
  }
  return true;
}

void Gather::VisitBlock(const GatherRun& run, Visit visit) const {
  if (below_->is_leaf()) {
    GatherRun out = run;
    out.leaf = below_->leaf;
    if (run.count == 1 || run.stride >= run.length || run.length == 1) {
      visit(out);
      return;
    }
    out.count = 1;
    for (uint64_t i = 0; i < run.count; ++i, out.to += run.length) visit(out);
    return;
  }
  for (uint64_t i = 0; i < run.count; ++i) {
    below_->VisitRange(run.from + i * run.stride, run.length,
                       run.to + i * run.length, visit);
  }
}

void Gather::VisitRunsAt(uint64_t begin, uint64_t count, uint64_t to,
                         Visit visit) const {
  // The innermost dimensions form a block of `rows` runs. The other ones are
  // the digits of a number that counts blocks.
  size_t outer = merged_.size();
  Dim run = {1, 1};
  Dim rows = {1, 0};
  if (merged_[outer - 1].stride == 1) run = merged_[--outer];
  if (outer > 0) rows = merged_[--outer];
  const uint64_t block = run.size * rows.size;
  while (count > 0) {
    uint64_t from = offset_;
    uint64_t number = begin / block;
    for (size_t i = outer; i-- > 0;) {
      from += number % merged_[i].size * merged_[i].stride;
      number /= merged_[i].size;
    }
    const uint64_t within = begin % block;
    const uint64_t row = within / run.size;
    const uint64_t skipped = within % run.size;
    from += row * rows.stride + skipped;
    GatherRun out = {0, from, to, 1, rows.stride, 1};
    const bool is_whole = skipped == 0 && count >= run.size;
    if (is_whole) {
      out.count = std::min(rows.size - row, count / run.size);
      out.length = run.size;
    } else {
      out.length = std::min(run.size - skipped, count);
    }
    VisitBlock(out, visit);
    const uint64_t step = out.count * out.length;
    begin += step;
    to += step;
    count -= step;
  }
}

}  // namespace msitd::compare
