// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace msitd::compare {

// Finds points near a position, among points that are removed one by one.
//
// A k-d tree. A search visits the nearest leaves first and at most kLeavesMax,
// so that it takes O(log n) time even if all points are equally far away; it
// then returns near points, but not always the nearest ones.
//
// Thread-compatible.
class PointTree {
 public:
  static constexpr size_t kLeavesMax = 32;

  struct Neighbor {
    uint32_t point = 0;
    float distance = 0;  // Squared.
  };

  // `points` has the `dims` coordinates of each point, which must be finite and
  // less than 1e15. Points are numbered in their order. Takes O(n log n) time.
  PointTree(std::vector<float> points, size_t dims);

  size_t size() const { return alive_.empty() ? 0 : alive_[1]; }

  // Which points to search.
  enum class Among { kRemaining, kAll };

  // Writes points near `position` to `out`, the nearest first. Returns their
  // number.
  size_t FindNear(std::span<const float> position, Among among,
                  std::span<Neighbor> out);

  // Returns the number of the leaf that contains a position. Searches at
  // positions in the same or neighboring leaves read the same memory.
  size_t LeafAt(std::span<const float> position) const;

  // Removes a point that was not removed before.
  void Remove(uint32_t point);

 private:
  static constexpr size_t kLeafPoints = 16;

  struct Split {
    uint32_t dim = 0;
    float value = 0;
  };
  // A node to search, and a lower bound of the squared distance of its points.
  struct Pending {
    float distance = 0;
    uint32_t node = 0;

    friend bool operator<(const Pending& a, const Pending& b) {
      return a.distance > b.distance;
    }
  };

  // Distributes the points of a node among its leaves.
  void Build(size_t node, size_t begin, size_t end);
  const float* At(size_t slot) const { return &points_[slot * dims_]; }

  const size_t dims_;
  size_t leaf_count_ = 1;      // A power of two.
  std::vector<float> points_;  // By slot; the slots of a leaf are consecutive.
  std::vector<uint32_t> slots_;   // The point in each slot.
  std::vector<uint32_t> leaves_;  // The leaf of each point.
  std::vector<size_t> begins_;    // The first slot of each leaf, and the end.
  // By node. Node 1 is the root, nodes 2i and 2i + 1 are the children of i, and
  // the last `leaf_count_` nodes are the leaves.
  std::vector<Split> splits_;
  std::vector<uint32_t> alive_;   // Number of points that are not removed.
  std::vector<Pending> pending_;  // Memory of FindNear: a heap.
};

}  // namespace msitd::compare
