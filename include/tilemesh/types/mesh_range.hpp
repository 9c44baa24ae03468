#pragma once

#include <cstddef>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "tilemesh/types/mesh_shape.hpp"

namespace tilemesh {

/// A box of coordinates, both ends inclusive: {{0, 0}, {0, 1}} is the first two devices of a row.
/// Iterates over its coordinates in row-major order.
class MeshRange {
 public:
  class Iterator;

  /// Throws invalid_argument unless both have the same one to three axes and 0 <= first <= last.
  MeshRange(const MeshCoord& first, const MeshCoord& last);
  /// All of a mesh.
  static MeshRange all(const MeshShape& shape);
  /// One coordinate.
  static MeshRange at(const MeshCoord& coord) { return {coord, coord}; }

  int axes() const { return static_cast<int>(first_.size()); }
  const MeshCoord& first() const { return first_; }
  const MeshCoord& last() const { return last_; }
  /// Its extent, as a mesh of its own.
  MeshShape shape() const;
  int device_count() const { return shape().device_count(); }

  bool contains(const MeshCoord& coord) const;
  bool contains(const MeshRange& range) const;
  /// What both have; nullopt if nothing, also for ranges of different axes.
  std::optional<MeshRange> intersect(const MeshRange& other) const;
  /// What is left without `other`: at most two boxes an axis, disjoint.
  std::vector<MeshRange> subtract(const MeshRange& other) const;

  Iterator begin() const;
  Iterator end() const;

  /// "(0,0)-(0,1)"; "(0,0)" for one coordinate.
  std::string to_string() const;
  friend bool operator==(const MeshRange&, const MeshRange&) = default;

 private:
  MeshCoord first_;
  MeshCoord last_;
};

/// Walks a range in row-major order.
class MeshRange::Iterator {
 public:
  using iterator_category = std::forward_iterator_tag;
  using value_type = MeshCoord;
  using difference_type = std::ptrdiff_t;
  using pointer = const MeshCoord*;
  using reference = const MeshCoord&;

  Iterator() = default;
  reference operator*() const { return coord_; }
  pointer operator->() const { return &coord_; }
  Iterator& operator++();
  Iterator operator++(int) {
    Iterator before = *this;
    ++*this;
    return before;
  }
  friend bool operator==(const Iterator&, const Iterator&) = default;

 private:
  friend class MeshRange;
  MeshCoord first_;
  MeshCoord last_;
  MeshCoord coord_;
  bool ended_ = true;
};

/// Any set of coordinates, as disjoint boxes. Boxes that together are a box are merged, so that
/// what was cut up and put together again is one box. A value.
class MeshRangeSet {
 public:
  MeshRangeSet() = default;
  MeshRangeSet(const MeshRange& range) : ranges_{range} {}  // NOLINT: a range is a set
  MeshRangeSet(std::initializer_list<MeshRange> ranges);

  bool empty() const { return ranges_.empty(); }
  int device_count() const;
  /// Disjoint, in row-major order of their first coordinates.
  const std::vector<MeshRange>& ranges() const { return ranges_; }
  /// All coordinates in row-major order.
  std::vector<MeshCoord> coords() const;

  bool contains(const MeshCoord& coord) const;
  bool contains(const MeshRangeSet& other) const;
  bool intersects(const MeshRangeSet& other) const;

  /// Adds what isn't there yet. Throws invalid_argument for a range of other axes.
  void add(const MeshRange& range);
  void add(const MeshRangeSet& other);
  void subtract(const MeshRangeSet& other);
  MeshRangeSet intersect(const MeshRangeSet& other) const;

  /// "(0,0)-(0,1) (2,0)"; "nothing" for the empty set.
  std::string to_string() const;
  /// The same coordinates, however they are cut.
  friend bool operator==(const MeshRangeSet& a, const MeshRangeSet& b);

 private:
  void merge();
  std::vector<MeshRange> ranges_;
};

}  // namespace tilemesh
