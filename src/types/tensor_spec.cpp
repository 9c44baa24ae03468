#include "tilemesh/types/tensor_spec.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/math.hpp"

namespace tilemesh {
namespace {

constexpr std::array<std::string_view, 3> kSpaceNames = {"host", "dram", "l1"};

[[noreturn]] void refuse(const std::string& message) {
  throw Error(ErrorCode::invalid_argument, message);
}

void check_placement(const TensorSpec& spec, int axis) {
  const Placement placement = spec.placement(axis);
  if (placement.is_shard() && placement.dim() >= spec.shape.rank()) {
    refuse(fmt::format("mesh axis {} shards dim {}, but shape {} has {} dims", axis,
                       placement.dim(), spec.shape.to_string(), spec.shape.rank()));
  }
  if (placement.kind() == Placement::Kind::partial && placement.op() > ReduceOp::prod) {
    refuse(fmt::format("mesh axis {} is partial by the unknown reduction {}", axis,
                       static_cast<int>(placement.op())));
  }
  if (placement.kind() == Placement::Kind::partial && is_storage(spec.dtype)) {
    refuse(
        fmt::format("mesh axis {} is partial, but the elements are {}, which nothing adds up: "
                    "convert them first",
                    axis, to_string(spec.dtype)));
  }
  if (placement.kind() == Placement::Kind::partial && placement.op() == ReduceOp::mean &&
      !is_float(spec.dtype)) {
    refuse(
        fmt::format("mesh axis {} is partial by mean, but the elements are {}: the mean of "
                    "integers is none; use sum",
                    axis, tilemesh::to_string(spec.dtype)));
  }
}

}  // namespace

std::string_view to_string(Space space) {
  const auto index = static_cast<std::size_t>(space);
  TILEMESH_CHECK(index < kSpaceNames.size(), "a memory space outside the enumeration");
  return kSpaceNames[index];
}

Space parse_space(std::string_view text) {
  for (std::size_t i = 0; i < kSpaceNames.size(); ++i) {
    if (kSpaceNames[i] == text) return static_cast<Space>(i);
  }
  refuse(fmt::format("\"{}\" is no memory space: there are host, dram and l1{}", text,
                     did_you_mean(text, {kSpaceNames.begin(), kSpaceNames.end()})));
}

void TensorSpec::check() const {
  if (static_cast<int>(dtype) >= kDTypeCount) {
    refuse(fmt::format("element type {} is unknown, the highest is {}", static_cast<int>(dtype),
                       kDTypeCount - 1));
  }
  if (static_cast<std::size_t>(space) >= kSpaceNames.size()) {
    refuse(fmt::format("memory space {} is unknown, the highest is {}", static_cast<int>(space),
                       kSpaceNames.size() - 1));
  }
  if (!placements.empty() && placements.size() != static_cast<std::size_t>(mesh.axes())) {
    refuse(
        fmt::format("there are {} placements, but mesh {} has {} axes: give one per axis, or "
                    "none for replicated",
                    placements.size(), mesh.to_string(), mesh.axes()));
  }
  for (int axis = 0; axis < mesh.axes(); ++axis)
    check_placement(*this, axis);
  layout.check_rank(shape.rank());
  static_cast<void>(bytes_per_device());  // throws when the bytes overflow
}

bool TensorSpec::is_replicated() const {
  return std::all_of(placements.begin(), placements.end(),
                     [](const Placement& placement) { return placement.is_replicate(); });
}

Placement TensorSpec::placement(int axis) const {
  return placements.empty() ? replicate() : placements[static_cast<std::size_t>(axis)];
}

Shape TensorSpec::shard_shape() const {
  if (is_replicated()) return shape;
  Dims sizes = shape.sizes();
  for (std::size_t dim = 0; dim < sizes.size(); ++dim) {
    std::int64_t parts = 1;
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      const Placement along = placement(axis);
      if (along.is_shard() && along.dim() == static_cast<int>(dim)) parts *= mesh[axis];
    }
    // Not (n + k - 1) / k, which could overflow.
    sizes[dim] = sizes[dim] / parts + (sizes[dim] % parts != 0 ? 1 : 0);
  }
  return Shape(sizes);
}

Extents TensorSpec::extents(const MeshCoord& coord) const {
  static_cast<void>(mesh.index_of(coord));  // throws when outside
  const Shape shard = shard_shape();
  Extents extents;
  for (int dim = 0; dim < shape.rank(); ++dim) {
    std::int64_t part = 0;
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      const Placement along = placement(axis);
      if (along.is_shard() && along.dim() == dim) {
        part = part * mesh[axis] + coord[static_cast<std::size_t>(axis)];
      }
    }
    std::int64_t begin = shape[dim];
    if (std::int64_t start = 0; !__builtin_mul_overflow(part, shard[dim], &start)) {
      begin = std::min(begin, start);
    }
    extents.push_back({begin, std::min(shard[dim], shape[dim] - begin)});
  }
  return extents;
}

std::int64_t TensorSpec::bytes_per_device() const {
  return layout.bytes(shard_shape(), size_of(dtype));
}

std::string TensorSpec::to_string() const {
  std::string text = fmt::format("{}{}", tilemesh::to_string(dtype), shape.to_string());
  const bool anywhere = mesh.device_count() == 1 || (space == Space::host && is_replicated());
  if (!anywhere) {
    text += fmt::format(" on mesh {} (", mesh.to_string());
    for (int axis = 0; axis < mesh.axes(); ++axis) {
      text += fmt::format("{}{}", axis == 0 ? "" : ", ", placement(axis).to_string());
    }
    text += ")";
  }
  return fmt::format("{}, {}, {}", text, layout.to_string(shape.rank()),
                     tilemesh::to_string(space));
}

bool operator==(const TensorSpec& a, const TensorSpec& b) {
  const bool same_placements =
      a.placements == b.placements || (a.is_replicated() && b.is_replicated());
  return a.dtype == b.dtype && a.space == b.space && same_placements && a.shape == b.shape &&
         a.layout == b.layout && a.mesh == b.mesh;
}

}  // namespace tilemesh
