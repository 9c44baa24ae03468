#include "compiler/constant_pool.hpp"

#include <algorithm>

#include "tilemesh/base/math.hpp"
#include "tilemesh/types/strided.hpp"

#include "compiler/hash.hpp"

namespace tilemesh {

namespace {

ConstStridedView rows_of(const ConstantData& data) {
  return {data.bytes->data(), data.dtype, data.shape, row_major_strides(data.shape)};
}

/// The part of the whole that `extents` say, in a shard of zeros.
std::vector<std::byte> cut(const ConstStridedView& whole, const Extents& extents,
                           const Shape& shard) {
  std::vector<std::byte> bytes(
      static_cast<std::size_t>(shard.element_count() * size_of(whole.dtype)));
  std::int64_t first = 0;
  Dims sizes;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    first += extents[d].begin * whole.strides[d];
    sizes.push_back(extents[d].size);
  }
  const Shape part(sizes);
  if (part.element_count() > 0) {
    copy_strided({whole.data + first * size_of(whole.dtype), whole.dtype, part, whole.strides},
                 {bytes.data(), whole.dtype, part, row_major_strides(shard)});
  }
  return bytes;
}

/// One coordinate for each different shard: 0 along the axes that don't cut.
std::vector<MeshCoord> shard_coords(const TensorSpec& spec) {
  std::vector<MeshCoord> coords;
  for (int i = 0; i < spec.mesh.device_count(); ++i) {
    const MeshCoord coord = spec.mesh.coord_of(i);
    bool first = true;
    for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
      first =
          first && (spec.placement(axis).is_shard() || coord[static_cast<std::size_t>(axis)] == 0);
    }
    if (first) coords.push_back(coord);
  }
  return coords;
}

std::vector<std::byte> stored(const ConstantData& data, const TensorSpec& spec) {
  const Shape shard = spec.shard_shape();
  const auto shard_bytes = static_cast<std::size_t>(spec.bytes_per_device());
  std::vector<std::byte> all;
  for (const MeshCoord& coord : shard_coords(spec)) {
    const std::vector<std::byte> rows = cut(rows_of(data), spec.extents(coord), shard);
    all.resize(all.size() + shard_bytes);
    relayout(rows.data(), data.dtype, Layout::rows(), all.data() + all.size() - shard_bytes,
             data.dtype, spec.layout, shard);
  }
  return all;
}

}  // namespace

ConstantPool::Entry ConstantPool::add(const ConstantData& data, const TensorSpec& spec) {
  std::span<const std::byte> bytes = *data.bytes;
  std::vector<std::byte> packed;
  if (!spec.layout.is_rows() || !spec.is_replicated()) {
    packed = stored(data, spec);
    bytes = packed;
  }
  const std::uint64_t hash = hash_bytes(bytes);
  const auto [first, last] = entries_.equal_range(hash);
  for (auto it = first; it != last; ++it) {
    const auto same = std::span(section_).subspan(it->second.offset, it->second.bytes);
    if (std::ranges::equal(same, bytes)) return it->second;
  }
  section_.resize(round_up<std::size_t>(section_.size(), 64));
  const Entry entry{section_.size(), bytes.size(), hash};
  section_.insert(section_.end(), bytes.begin(), bytes.end());
  entries_.emplace(hash, entry);
  return entry;
}

}  // namespace tilemesh
