#include "tensor/shard_io.hpp"

#include <algorithm>
#include <deque>
#include <numeric>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/device/host_exchange.hpp"
#include "tilemesh/mesh/mesh_queue.hpp"
#include "tilemesh/types/redistribution.hpp"

#include "mesh/mesh_core.hpp"

namespace tilemesh::detail {

namespace {

/// The part of a strided array that `extents` say.
template <class View>
View cut(const View& global, const Extents& extents) {
  View part = global;
  Dims sizes;
  for (std::size_t d = 0; d < extents.size(); ++d) {
    part.data += extents[d].begin * global.strides[d] * size_of(global.dtype);
    sizes.push_back(extents[d].size);
  }
  part.shape = Shape(sizes);
  return part;
}

/// A device's shard in host memory: its arena if the host can address it, else a staging buffer.
class ShardMemory {
 public:
  ShardMemory(const MeshBufferView& buffer, int index) : buffer_(buffer), index_(index) {
    std::byte* arena = buffer.mesh().device(index).map(buffer.space());
    if (arena != nullptr) {
      data_ = arena + buffer.address().offset;
    } else {
      staging_.resize(static_cast<std::size_t>(buffer.bytes_per_device()));
      data_ = staging_.data();
    }
  }

  std::byte* data() const { return data_; }

  void download() {
    if (staging_.empty()) {
      return;
    }
    const ShardRead read{.coord = buffer_.mesh().shape().coord_of(index_),
                         .host = MutableHostBytes::borrow(std::span(staging_), nullptr)};
    auto& queue = buffer_.mesh().queue(0);
    queue.wait(queue.enqueue_read(buffer_, {&read, 1}));
  }
  void upload() {
    if (staging_.empty()) {
      return;
    }
    const ShardWrite write{.coord = buffer_.mesh().shape().coord_of(index_),
                           .host = HostBytes::borrow(std::span(staging_), nullptr)};
    auto& queue = buffer_.mesh().queue(0);
    queue.wait(queue.enqueue_write(buffer_, {&write, 1}));
  }

 private:
  const MeshBufferView& buffer_;
  int index_;
  std::vector<std::byte> staging_;
  std::byte* data_ = nullptr;
};

/// A shard that isn't full is read and written through a whole one in row-major order.
bool is_full(const Shape& shard, const Extents& extents) {
  for (std::size_t d = 0; d < extents.size(); ++d) {
    if (extents[d].size != shard[static_cast<int>(d)]) {
      return false;
    }
  }
  return true;
}

StridedView rows_view(std::vector<std::byte>& bytes, DType dtype, const Shape& shape) {
  bytes.resize(static_cast<std::size_t>(shape.element_count() * size_of(dtype)));
  return {bytes.data(), dtype, shape, row_major_strides(shape)};
}

/// True if a device before it holds the same part.
bool is_copy(const TensorSpec& spec, const MeshCoord& coord) {
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (spec.placement(axis).is_replicate() && coord[static_cast<std::size_t>(axis)] != 0) {
      return true;
    }
  }
  return false;
}

Extents extents_of(const Dims& begin, const Dims& sizes) {
  Extents extents;
  for (std::size_t d = 0; d < sizes.size(); ++d) {
    extents.push_back({begin[d], sizes[d]});
  }
  return extents;
}

/// The first elements of each dim.
Extents first_of(const Shape& shape) {
  Dims begin;
  begin.resize(shape.sizes().size());
  return extents_of(begin, shape.sizes());
}

}  // namespace

void write_shard(const MeshBufferView& buffer, const TensorSpec& spec, int index,
                 const ConstStridedView& global) {
  write_part(buffer, spec, index, cut(global, spec.extents(spec.mesh.coord_of(index))));
}

void write_part(const MeshBufferView& buffer, const TensorSpec& spec, int index,
                const ConstStridedView& part) {
  const Shape shard = spec.shard_shape();
  ShardMemory memory(buffer, index);
  if (part.shape == shard) {
    pack(part, spec.layout, spec.dtype, memory.data());
  } else {
    std::vector<std::byte> whole;
    const StridedView rows = rows_view(whole, spec.dtype, shard);
    copy_strided(part, cut(rows, first_of(part.shape)));
    pack(rows, spec.layout, spec.dtype, memory.data());
  }
  memory.upload();
}

std::optional<ReduceOp> reduced_by(const TensorSpec& spec) {
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    const Placement placement = spec.placement(axis);
    if (placement.kind() == Placement::Kind::partial && spec.mesh[axis] > 1) {
      return placement.op();
    }
  }
  return std::nullopt;
}

namespace {

/// The elements of a box of one device's shard, row-major: where they lie, if they lie so, else
/// copied to `own`.
const std::byte* box_of(const ShardMemory& memory, const TensorSpec& spec, const ShardPiece& piece,
                        std::vector<std::byte>& own) {
  const Shape shard = spec.shard_shape();
  if (spec.layout.is_rows() && Shape(piece.sizes) == shard) {
    return memory.data();
  }
  std::vector<std::byte> whole;
  const StridedView rows = rows_view(whole, spec.dtype, shard);
  unpack(memory.data(), spec.dtype, spec.layout, rows);
  copy_strided(cut(rows, extents_of(piece.source_begin, piece.sizes)),
               rows_view(own, spec.dtype, Shape(piece.sizes)));
  return own.data();
}

void read_parts(const MeshBufferView& buffer, const TensorSpec& spec, const StridedView& global) {
  TensorSpec whole = spec;
  whole.placements = {};
  whole.mesh = MeshShape{1};
  DeviceNumbers numbers{
      .from = std::vector<int>(static_cast<std::size_t>(spec.mesh.device_count())),
      .to = {-1}};  // none of the devices
  std::iota(numbers.from.begin(), numbers.from.end(), 0);
  const ReduceFunction reduce = plain_reduction(reduction_between(spec, whole), spec.dtype);
  for (const ShardPiece& piece : pieces_for(spec, whole, 0, numbers)) {
    std::deque<ShardMemory> memories;
    std::deque<std::vector<std::byte>> copies;
    std::vector<const std::byte*> parts;
    for (const int source : piece.sources) {
      memories.emplace_back(buffer, source).download();
      parts.push_back(box_of(memories.back(), spec, piece, copies.emplace_back()));
    }
    std::vector<std::byte> result;
    const Shape box(piece.sizes);
    const StridedView reduced = rows_view(result, spec.dtype, box);
    std::byte* const out = result.data();
    reduce({.inputs = parts, .outputs = {&out, 1}, .elements = box.element_count()});
    copy_strided(reduced, cut(global, extents_of(piece.target_begin, piece.sizes)));
  }
}

void read_whole(const MeshBufferView& buffer, const TensorSpec& spec, const StridedView& global) {
  const Shape shard = spec.shard_shape();
  for (int index = 0; index < spec.mesh.device_count(); ++index) {
    const MeshCoord coord = spec.mesh.coord_of(index);
    if (is_copy(spec, coord)) {
      continue;
    }
    const Extents extents = spec.extents(coord);
    if (std::any_of(extents.begin(), extents.end(), [](const Extent& e) { return e.size == 0; })) {
      continue;
    }
    ShardMemory memory(buffer, index);
    memory.download();
    const StridedView part = cut(global, extents);
    if (is_full(shard, extents)) {
      unpack(memory.data(), spec.dtype, spec.layout, part);
    } else {
      std::vector<std::byte> whole;
      const StridedView rows = rows_view(whole, spec.dtype, shard);
      unpack(memory.data(), spec.dtype, spec.layout, rows);
      copy_strided(cut(rows, first_of(part.shape)), part);
    }
  }
}

}  // namespace

void read_shards(const MeshBufferView& buffer, const TensorSpec& spec, const StridedView& global) {
  if (reduced_by(spec)) {
    read_parts(buffer, spec, global);
  } else {
    read_whole(buffer, spec, global);
  }
  buffer.mesh().core().count_download(global.shape.element_count() * size_of(spec.dtype));
}

void convert_shard(const MeshBufferView& source, const TensorSpec& from,
                   const MeshBufferView& target, const TensorSpec& to, int index) {
  ShardMemory in(source, index);
  ShardMemory out(target, index);
  in.download();
  relayout(in.data(), from.dtype, from.layout, out.data(), to.dtype, to.layout, to.shard_shape());
  out.upload();
}

void place_shard(const MeshBufferView& source, const TensorSpec& from, const MeshBufferView& target,
                 const TensorSpec& to, int index) {
  ShardMemory in(source, 0);
  in.download();
  if (from.shape == to.shard_shape()) {
    ShardMemory out(target, index);
    relayout(in.data(), from.dtype, from.layout, out.data(), to.dtype, to.layout, from.shape);
    out.upload();
    return;
  }
  std::vector<std::byte> bytes;
  const StridedView rows = rows_view(bytes, from.dtype, from.shape);
  unpack(in.data(), from.dtype, from.layout, rows);
  write_part(target, to, index, rows);
}

}  // namespace tilemesh::detail
