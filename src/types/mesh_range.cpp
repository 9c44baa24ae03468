#include "tilemesh/types/mesh_range.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tilemesh {
namespace {

bool before(const MeshCoord& a, const MeshCoord& b) {
  return std::lexicographical_compare(a.begin(), a.end(), b.begin(), b.end());
}

/// The box that two disjoint ones are together; nullopt if they aren't one.
std::optional<MeshRange> joined(const MeshRange& a, const MeshRange& b) {
  std::optional<std::size_t> differs;
  for (std::size_t axis = 0; axis < a.first().size(); ++axis) {
    if (a.first()[axis] == b.first()[axis] && a.last()[axis] == b.last()[axis]) continue;
    if (differs) return std::nullopt;
    differs = axis;
  }
  if (!differs) return a;
  const MeshRange& low = a.first()[*differs] < b.first()[*differs] ? a : b;
  const MeshRange& high = &low == &a ? b : a;
  if (low.last()[*differs] + 1 != high.first()[*differs]) return std::nullopt;
  return MeshRange(low.first(), high.last());
}

}  // namespace

MeshRange::MeshRange(const MeshCoord& first, const MeshCoord& last) : first_(first), last_(last) {
  bool right = !first.empty() && first.size() == last.size();
  for (std::size_t axis = 0; right && axis < first.size(); ++axis) {
    right = 0 <= first[axis] && first[axis] <= last[axis];
  }
  if (!right) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("a range from {} to {}: give two coordinates of the same one to {} "
                            "axes, none negative, the first not behind the last (which belongs to "
                            "the range)",
                            tilemesh::to_string(first), tilemesh::to_string(last), kMaxMeshAxes));
  }
}

MeshRange MeshRange::all(const MeshShape& shape) {
  return {shape.coord_of(0), shape.coord_of(shape.device_count() - 1)};
}

MeshShape MeshRange::shape() const {
  InlineVector<std::int32_t, kMaxMeshAxes> sizes;
  for (std::size_t axis = 0; axis < first_.size(); ++axis) {
    sizes.push_back(last_[axis] - first_[axis] + 1);
  }
  return MeshShape(std::span<const std::int32_t>(sizes.begin(), sizes.size()));
}

bool MeshRange::contains(const MeshCoord& coord) const {
  if (coord.size() != first_.size()) return false;
  for (std::size_t axis = 0; axis < coord.size(); ++axis) {
    if (coord[axis] < first_[axis] || coord[axis] > last_[axis]) return false;
  }
  return true;
}

bool MeshRange::contains(const MeshRange& range) const {
  return contains(range.first_) && contains(range.last_);
}

std::optional<MeshRange> MeshRange::intersect(const MeshRange& other) const {
  if (axes() != other.axes()) return std::nullopt;
  MeshCoord first = first_;
  MeshCoord last = last_;
  for (std::size_t axis = 0; axis < first.size(); ++axis) {
    first[axis] = std::max(first[axis], other.first_[axis]);
    last[axis] = std::min(last[axis], other.last_[axis]);
    if (first[axis] > last[axis]) return std::nullopt;
  }
  return MeshRange(first, last);
}

std::vector<MeshRange> MeshRange::subtract(const MeshRange& other) const {
  const auto common = intersect(other);
  if (!common) return {*this};
  std::vector<MeshRange> rest;
  MeshRange core = *this;  // shrinks to what is common, axis by axis
  for (std::size_t axis = 0; axis < first_.size(); ++axis) {
    if (core.first_[axis] < common->first_[axis]) {
      MeshRange low = core;
      low.last_[axis] = common->first_[axis] - 1;
      rest.push_back(low);
    }
    if (core.last_[axis] > common->last_[axis]) {
      MeshRange high = core;
      high.first_[axis] = common->last_[axis] + 1;
      rest.push_back(high);
    }
    core.first_[axis] = common->first_[axis];
    core.last_[axis] = common->last_[axis];
  }
  return rest;
}

MeshRange::Iterator MeshRange::begin() const {
  Iterator it;
  it.first_ = first_;
  it.last_ = last_;
  it.coord_ = first_;
  it.ended_ = false;
  return it;
}

MeshRange::Iterator MeshRange::end() const {
  Iterator it = begin();
  it.ended_ = true;
  return it;
}

MeshRange::Iterator& MeshRange::Iterator::operator++() {
  for (std::size_t axis = coord_.size(); axis-- > 0;) {
    if (++coord_[axis] <= last_[axis]) return *this;
    coord_[axis] = first_[axis];
  }
  ended_ = true;
  return *this;
}

std::string MeshRange::to_string() const {
  if (first_ == last_) return tilemesh::to_string(first_);
  return fmt::format("{}-{}", tilemesh::to_string(first_), tilemesh::to_string(last_));
}

MeshRangeSet::MeshRangeSet(std::initializer_list<MeshRange> ranges) {
  for (const MeshRange& range : ranges)
    add(range);
}

int MeshRangeSet::device_count() const {
  int count = 0;
  for (const MeshRange& range : ranges_)
    count += range.device_count();
  return count;
}

std::vector<MeshCoord> MeshRangeSet::coords() const {
  std::vector<MeshCoord> all;
  all.reserve(static_cast<std::size_t>(device_count()));
  for (const MeshRange& range : ranges_)
    all.insert(all.end(), range.begin(), range.end());
  std::sort(all.begin(), all.end(), before);
  return all;
}

bool MeshRangeSet::contains(const MeshCoord& coord) const {
  return std::any_of(ranges_.begin(), ranges_.end(),
                     [&](const MeshRange& range) { return range.contains(coord); });
}

bool MeshRangeSet::contains(const MeshRangeSet& other) const {
  MeshRangeSet rest = other;
  rest.subtract(*this);
  return rest.empty();
}

bool MeshRangeSet::intersects(const MeshRangeSet& other) const {
  return !intersect(other).empty();
}

void MeshRangeSet::add(const MeshRange& range) {
  if (!empty() && ranges_.front().axes() != range.axes()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("range {} has {} axes, the set {} has {}: a set is of one mesh",
                            range.to_string(), range.axes(), to_string(), ranges_.front().axes()));
  }
  MeshRangeSet fresh = range;
  fresh.subtract(*this);
  ranges_.insert(ranges_.end(), fresh.ranges_.begin(), fresh.ranges_.end());
  merge();
}

void MeshRangeSet::add(const MeshRangeSet& other) {
  for (const MeshRange& range : other.ranges_)
    add(range);
}

void MeshRangeSet::subtract(const MeshRangeSet& other) {
  for (const MeshRange& gone : other.ranges_) {
    std::vector<MeshRange> rest;
    for (const MeshRange& range : ranges_) {
      const auto parts = range.subtract(gone);
      rest.insert(rest.end(), parts.begin(), parts.end());
    }
    ranges_ = std::move(rest);
  }
  merge();
}

MeshRangeSet MeshRangeSet::intersect(const MeshRangeSet& other) const {
  MeshRangeSet result;
  for (const MeshRange& a : ranges_) {
    for (const MeshRange& b : other.ranges_) {
      if (const auto common = a.intersect(b)) result.ranges_.push_back(*common);
    }
  }
  result.merge();
  return result;
}

/// Joins until no two boxes are one, and sorts them.
void MeshRangeSet::merge() {
  for (std::size_t i = 0; i < ranges_.size();) {
    bool grew = false;
    for (std::size_t k = 0; k < ranges_.size() && !grew; ++k) {
      if (k == i) continue;
      if (const auto box = joined(ranges_[i], ranges_[k])) {
        ranges_[std::min(i, k)] = *box;
        ranges_.erase(ranges_.begin() + static_cast<std::ptrdiff_t>(std::max(i, k)));
        grew = true;
      }
    }
    i = grew ? 0 : i + 1;
  }
  std::sort(ranges_.begin(), ranges_.end(),
            [](const MeshRange& a, const MeshRange& b) { return before(a.first(), b.first()); });
}

std::string MeshRangeSet::to_string() const {
  if (empty()) return "nothing";
  std::string text;
  for (const MeshRange& range : ranges_)
    text += (text.empty() ? "" : " ") + range.to_string();
  return text;
}

bool operator==(const MeshRangeSet& a, const MeshRangeSet& b) {
  return a.contains(b) && b.contains(a);
}

}  // namespace tilemesh
