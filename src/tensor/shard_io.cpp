#include "tensor/shard_io.hpp"

#include <algorithm>
#include <vector>

#include <fmt/format.h>

#include "tilemesh/mesh/mesh_queue.hpp"

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

Extents from_zero(const Extents& extents) {
  Extents result = extents;
  for (Extent& extent : result) {
    extent.begin = 0;
  }
  return result;
}

}  // namespace

void write_shard(const MeshBufferView& buffer, const TensorSpec& spec, int index,
                 const ConstStridedView& global) {
  const Shape shard = spec.shard_shape();
  const Extents extents = spec.extents(spec.mesh.coord_of(index));
  const ConstStridedView part = cut(global, extents);
  ShardMemory memory(buffer, index);
  if (is_full(shard, extents)) {
    pack(part, spec.layout, spec.dtype, memory.data());
  } else {
    std::vector<std::byte> whole;
    const StridedView rows = rows_view(whole, spec.dtype, shard);
    copy_strided(part, cut(rows, from_zero(extents)));
    pack(rows, spec.layout, spec.dtype, memory.data());
  }
  memory.upload();
}

void read_shards(const MeshBufferView& buffer, const TensorSpec& spec, const StridedView& global) {
  for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
    if (spec.placement(axis).kind() == Placement::Kind::partial) {
      throw Error(ErrorCode::unsupported,
                  fmt::format("a partial tensor ({}) can't be read before it is reduced",
                              spec.to_string()));
    }
  }
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
      copy_strided(cut(rows, from_zero(extents)), part);
    }
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

}  // namespace tilemesh::detail
