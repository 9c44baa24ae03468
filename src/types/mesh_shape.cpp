#include "tilemesh/types/mesh_shape.hpp"

#include <charconv>
#include <limits>

#include <fmt/format.h>
#include <fmt/ranges.h>

namespace tilemesh {
namespace {

std::string text_of(std::span<const std::int32_t> sizes) {
  return fmt::format("{}", fmt::join(sizes.begin(), sizes.end(), "x"));
}

[[noreturn]] void refuse(const std::string& mesh, const std::string& reason) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("mesh shape \"{}\" {}: write one to {} sizes of at least 1, such as 1x2",
                          mesh, reason, kMaxMeshAxes));
}

void check_sizes(std::span<const std::int32_t> sizes) {
  if (sizes.empty() || sizes.size() > static_cast<std::size_t>(kMaxMeshAxes)) {
    refuse(text_of(sizes), fmt::format("has {} axes", sizes.size()));
  }
  std::int64_t count = 1;
  for (const std::int32_t size : sizes) {
    if (size < 1) refuse(text_of(sizes), fmt::format("has an axis of {} devices", size));
    count *= size;
    if (count > std::numeric_limits<std::int32_t>::max()) {
      refuse(text_of(sizes), "has more than 2^31-1 devices");
    }
  }
}

}  // namespace

std::string to_string(const MeshCoord& coord) {
  return fmt::format("({})", fmt::join(coord.begin(), coord.end(), ","));
}

MeshShape::MeshShape(std::initializer_list<std::int32_t> sizes)
    : MeshShape(std::span<const std::int32_t>(sizes.begin(), sizes.size())) {}

MeshShape::MeshShape(std::span<const std::int32_t> sizes) {
  check_sizes(sizes);
  sizes_ = {sizes.begin(), sizes.end()};
}

int MeshShape::device_count() const {
  int count = 1;
  for (const std::int32_t size : sizes_)
    count *= size;
  return count;
}

bool MeshShape::contains(const MeshCoord& coord) const {
  if (coord.size() != sizes_.size()) return false;
  for (std::size_t axis = 0; axis < coord.size(); ++axis) {
    if (coord[axis] < 0 || coord[axis] >= sizes_[axis]) return false;
  }
  return true;
}

int MeshShape::index_of(const MeshCoord& coord) const {
  if (!contains(coord)) {
    throw Error(ErrorCode::invalid_argument, fmt::format("coordinate {} is outside the mesh of {}",
                                                         tilemesh::to_string(coord), to_string()));
  }
  int index = 0;
  for (std::size_t axis = 0; axis < coord.size(); ++axis) {
    index = index * sizes_[axis] + coord[axis];
  }
  return index;
}

MeshCoord MeshShape::coord_of(int index) const {
  if (index < 0 || index >= device_count()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("device {} is outside the mesh of {}, which has {} devices", index,
                            to_string(), device_count()));
  }
  MeshCoord coord;
  coord.resize(sizes_.size());
  for (std::size_t axis = sizes_.size(); axis-- > 0;) {
    coord[axis] = index % sizes_[axis];
    index /= sizes_[axis];
  }
  return coord;
}

std::string MeshShape::to_string() const {
  return text_of(sizes_);
}

MeshShape MeshShape::parse(std::string_view text) {
  InlineVector<std::int32_t, kMaxMeshAxes> sizes;
  std::string_view rest = text;
  while (true) {
    std::int32_t size = 0;
    const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), size);
    if (error != std::errc()) refuse(std::string(text), "has no number where a size belongs");
    if (sizes.size() == static_cast<std::size_t>(kMaxMeshAxes)) {
      refuse(std::string(text), "has too many axes");
    }
    sizes.push_back(size);
    rest.remove_prefix(static_cast<std::size_t>(end - rest.data()));
    if (rest.empty()) break;
    if (rest.front() != 'x') refuse(std::string(text), fmt::format("has a stray \"{}\"", rest));
    rest.remove_prefix(1);
  }
  return MeshShape(std::span<const std::int32_t>(sizes.begin(), sizes.size()));
}

}  // namespace tilemesh
