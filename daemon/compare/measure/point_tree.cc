// SPDX-License-Identifier: Apache-2.0
#include "daemon/compare/measure/point_tree.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "protos/base/check.h"

namespace msitd::compare {

namespace {

// Inserts a point into the first `count` ones, which are sorted, unless all
// entries of `out` are nearer.
void Offer(const PointTree::Neighbor& found, std::span<PointTree::Neighbor> out,
           size_t& count) {
  const bool is_full = count == out.size();
  if (is_full && found.distance >= out.back().distance) return;
  size_t at = is_full ? count - 1 : count++;
  for (; at > 0 && out[at - 1].distance > found.distance; --at) {
    out[at] = out[at - 1];
  }
  out[at] = found;
}

}  // namespace

PointTree::PointTree(std::vector<float> points, size_t dims)
    : dims_(dims), points_(std::move(points)) {
  const size_t count = points_.size() / dims_;
  if (count == 0) return;
  while (leaf_count_ * kLeafPoints < count) leaf_count_ *= 2;
  slots_.resize(count);
  std::iota(slots_.begin(), slots_.end(), 0u);
  leaves_.resize(count);
  begins_.resize(leaf_count_ + 1);
  begins_.back() = count;
  splits_.resize(leaf_count_);
  alive_.resize(2 * leaf_count_);
  Build(1, 0, count);
  std::vector<float> sorted(points_.size());
  for (size_t i = 0; i < count; ++i) {
    std::copy_n(At(slots_[i]), dims_, &sorted[i * dims_]);
  }
  points_ = std::move(sorted);
}

void PointTree::Build(size_t node, size_t begin, size_t end) {
  alive_[node] = static_cast<uint32_t>(end - begin);
  if (node >= leaf_count_) {
    const size_t leaf = node - leaf_count_;
    begins_[leaf] = begin;
    for (size_t i = begin; i < end; ++i) {
      leaves_[slots_[i]] = static_cast<uint32_t>(leaf);
    }
    return;
  }
  Split& split = splits_[node];
  float widest = -1;
  for (uint32_t dim = 0; dim < dims_ && begin < end; ++dim) {
    float least = At(slots_[begin])[dim];
    float most = least;
    for (size_t i = begin + 1; i < end; ++i) {
      least = std::min(least, At(slots_[i])[dim]);
      most = std::max(most, At(slots_[i])[dim]);
    }
    if (most - least > widest) {
      widest = most - least;
      split.dim = dim;
    }
  }
  const size_t middle = begin + (end - begin) / 2;
  if (begin < end) {
    std::nth_element(slots_.begin() + static_cast<ptrdiff_t>(begin),
                     slots_.begin() + static_cast<ptrdiff_t>(middle),
                     slots_.begin() + static_cast<ptrdiff_t>(end),
                     [this, dim = split.dim](uint32_t a, uint32_t b) {
                       return At(a)[dim] < At(b)[dim];
                     });
    split.value = At(slots_[middle])[split.dim];
  }
  Build(2 * node, begin, middle);
  Build(2 * node + 1, middle, end);
}

size_t PointTree::FindNear(std::span<const float> position, Among among,
                           std::span<Neighbor> out) {
  size_t count = 0;
  size_t leaves = 0;
  const auto is_near = [&](float distance) {
    return count < out.size() || distance < out.back().distance;
  };
  const auto has_points = [&](size_t node) {
    return among == Among::kAll || alive_[node] > 0;
  };
  pending_.clear();
  if (!alive_.empty() && has_points(1)) pending_.push_back({0, 1});
  while (!pending_.empty() && leaves < kLeavesMax) {
    std::pop_heap(pending_.begin(), pending_.end());
    auto [distance, node] = pending_.back();
    pending_.pop_back();
    if (!is_near(distance)) break;
    while (node < leaf_count_) {
      const Split& split = splits_[node];
      const float beyond = position[split.dim] - split.value;
      const uint32_t near = 2 * node + (beyond < 0 ? 0 : 1);
      const float far_distance = std::max(distance, beyond * beyond);
      if (has_points(near ^ 1) && is_near(far_distance)) {
        pending_.push_back({far_distance, near ^ 1});
        std::push_heap(pending_.begin(), pending_.end());
      }
      if (!has_points(near)) break;
      node = near;
    }
    if (node < leaf_count_) continue;
    ++leaves;
    const size_t leaf = node - leaf_count_;
    const size_t end =
        among == Among::kAll ? begins_[leaf + 1] : begins_[leaf] + alive_[node];
    for (size_t i = begins_[leaf]; i < end; ++i) {
      const float* const point = At(i);
      float sum = 0;
      for (size_t dim = 0; dim < dims_; ++dim) {
        const float difference = position[dim] - point[dim];
        sum += difference * difference;
      }
      Offer({slots_[i], sum}, out, count);
    }
  }
  return count;
}

size_t PointTree::LeafAt(std::span<const float> position) const {
  size_t node = 1;
  while (node < leaf_count_) {
    const Split& split = splits_[node];
    node = 2 * node + (position[split.dim] < split.value ? 0 : 1);
  }
  return node - leaf_count_;
}

void PointTree::Remove(uint32_t point) {
  size_t node = leaf_count_ + leaves_[point];
  const size_t begin = begins_[node - leaf_count_];
  const size_t last = begin + alive_[node] - 1;
  size_t slot = begin;
  while (slot <= last && slots_[slot] != point) ++slot;
  MSITD_CHECK(slot <= last);
  std::swap(slots_[slot], slots_[last]);
  std::swap_ranges(&points_[slot * dims_], &points_[slot * dims_] + dims_,
                   &points_[last * dims_]);
  for (; node > 0; node /= 2) --alive_[node];
}

}  // namespace msitd::compare
