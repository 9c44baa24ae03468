#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <source_location>
#include <span>
#include <string>
#include <vector>

#include "tilemesh/device/event.hpp"
#include "tilemesh/mesh/mesh.hpp"
#include "tilemesh/mesh/mesh_buffer.hpp"
#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"
#include "tilemesh/types/tensor_spec.hpp"

namespace tilemesh {

namespace detail {
struct TensorState;
}  // namespace detail

/// How host elements lie. The dtype is that of the span; empty strides mean row-major; strides are
/// in elements and may be zero or negative (the span's first byte is then not logical index 0:
/// `offset` says how many elements into the span index 0 is).
struct HostSpec {
  Shape shape;
  Dims strides = {};
  std::int64_t offset = 0;
};

/// How a tensor comes to the host.
struct HostOptions {
  bool reduce_partial = true;  ///< put parts of a reduction together; otherwise they are an error
};

/// A tensor: what it is (spec), where its bytes are (host or a mesh buffer), and the event after
/// which they are right. A handle: copies share the storage, which is freed with the last of them
/// or by deallocate(). Handles may be used from many threads; the elements of one must not be
/// written while others use it.
class Tensor {
 public:
  /// An empty handle; every use but assignment throws.
  Tensor() = default;

  /// Own copy of host elements; throws invalid_argument if the span is too small for the spec.
  template <class Range>
  static Tensor copy(const Range& range, const HostSpec& spec) {
    const std::span values(range);
    using T = std::remove_cv_t<typename decltype(values)::value_type>;
    return copy_bytes(std::as_bytes(values), kDTypeOf<T>, spec);
  }
  /// No copy: the elements stay where they are; `keep_alive` owns them.
  template <class T>
  static Tensor borrow(std::span<T> values, const HostSpec& spec,
                       std::shared_ptr<const void> keep_alive) {
    return borrow_bytes(std::as_bytes(values), kDTypeOf<T>, spec, std::move(keep_alive));
  }
  /// Takes the vector over.
  template <class T>
  static Tensor adopt(std::vector<T>&& values, const HostSpec& spec) {
    auto owner = std::make_shared<const std::vector<T>>(std::move(values));
    return borrow_bytes(std::as_bytes(std::span<const T>(*owner)), kDTypeOf<T>, spec, owner);
  }
  static Tensor copy_bytes(std::span<const std::byte> bytes, DType dtype, const HostSpec& spec);
  static Tensor borrow_bytes(std::span<const std::byte> bytes, DType dtype, const HostSpec& spec,
                             std::shared_ptr<const void> keep_alive);

  /// True unless this is the empty handle.
  explicit operator bool() const { return state_ != nullptr; }
  const TensorSpec& spec() const;
  const Shape& shape() const { return spec().shape; }
  DType dtype() const { return spec().dtype; }
  bool on_host() const { return spec().space == Space::host; }
  /// The name that errors and the ledger use.
  const std::string& label() const;

  bool is_allocated() const;
  /// Frees the storage now (in stream order); every handle of it is invalid afterwards and says so
  /// when used. A second call does nothing.
  void deallocate(std::source_location where = std::source_location::current());

  bool ready() const;
  void wait() const;
  bool wait_for(std::chrono::nanoseconds timeout) const;
  void then(std::function<void(const Status&)> callback) const;
  Event event() const;

  /// On this mesh in this spec, whose space must be one of the device's; returns at once. The
  /// tensor itself if it is there already. Same as to_spec.
  Tensor to_device(const Mesh& mesh, const TensorSpec& spec) const;
  /// A view of the part that the device at `coord` holds: a tensor of its valid extent on the mesh
  /// of that one device. Shares the storage and its event; freeing the view leaves this tensor as
  /// it is, freeing this tensor makes every use of the view a `deallocated` error. Throws
  /// invalid_argument on the host and for a coordinate outside of the mesh, unsupported if the
  /// device's last part is cut inside the blocks of a layout.
  Tensor shard(const MeshCoord& coord) const;

  /// What every device holds, as `shard` gives it, in row-major order of the coordinates.
  std::vector<Tensor> shards() const;

  /// Row-major host tensor of the global shape, following its own placements: what is replicated is
  /// read once, shards are put together, parts are reduced in the order of their coordinates. Waits
  /// for this tensor alone. A row-major host tensor is returned as it is. Throws invalid_argument
  /// for a partial tensor if the options say so.
  Tensor to_host(const HostOptions& options) const;
  Tensor to_host() const { return to_host(HostOptions{}); }
  /// Row-major elements; waits. Throws invalid_argument for another type than T.
  template <class T>
  std::vector<T> values() const {
    const Tensor host = to_host();
    host.check_dtype(kDTypeOf<T>);
    const auto count = static_cast<std::size_t>(shape().element_count());
    if constexpr (std::is_same_v<T, bool>) {  // whose vector has bits
      const auto* const bytes = reinterpret_cast<const bool*>(host.host_view().data);  // NOLINT
      return std::vector<bool>(bytes, bytes + count);
    } else {
      std::vector<T> result(count);
      host.read(std::as_writable_bytes(std::span<T>(result)));
      return result;
    }
  }
  /// The only element; throws invalid_argument if there are more or fewer, or of another type.
  template <class T>
  T item() const {
    check_dtype(kDTypeOf<T>);
    T result{};
    read(std::as_writable_bytes(std::span<T>(&result, 1)));
    return result;
  }
  /// Copies the row-major elements out; waits; allocates nothing for one device. Throws
  /// invalid_argument if `out` has another size.
  void read(std::span<std::byte> out) const;

  /// Host storage as it lies. Requires on_host(); waits.
  ConstStridedView host_view() const;
  /// The bytes on the mesh; of a shard those of its device. Requires !on_host(). Shared with the
  /// commands in flight, so that it stays while the caller holds it.
  std::shared_ptr<MeshBufferView> buffer() const;
  Mesh mesh() const;

  /// For the parts above.
  explicit Tensor(std::shared_ptr<detail::TensorState> state) : state_(std::move(state)) {}
  const std::shared_ptr<detail::TensorState>& state() const { return state_; }

 private:
  void check_dtype(DType wanted) const;
  std::shared_ptr<detail::TensorState> state_;
};

/// A tensor whose storage the callee may take; see donate.
struct Donation {
  Tensor tensor;
};
/// Gives the storage away to a submit: the program may write into it. All handles are invalid
/// afterwards.
inline Donation donate(Tensor tensor) {
  return {std::move(tensor)};
}

}  // namespace tilemesh
