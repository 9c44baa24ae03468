#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

namespace tilemesh {

/// Host memory of a known size together with whoever owns it. A transfer holds it until its command
/// has ended, so nothing has to be kept or waited for by the caller, who may drop a read's target
/// at once. It shares the memory, it takes no copy: what is written into it after the enqueue and
/// before the transfer's event may or may not be what is transferred. A value.
template <class Byte>
class BasicHostBytes {
 public:
  using Owner = std::shared_ptr<std::conditional_t<std::is_const_v<Byte>, const void, void>>;

  BasicHostBytes() = default;
  /// Takes a vector's elements over.
  template <class T>
  requires std::is_trivially_copyable_v<T> BasicHostBytes(
      std::vector<T>&& values)  // NOLINT: the vector is given away
      : BasicHostBytes(std::make_shared<std::vector<T>>(std::move(values))) {}
  /// Shares a vector, whose size must not change from now on.
  template <class T>
  requires std::is_trivially_copyable_v<T> BasicHostBytes(
      std::shared_ptr<std::vector<T>> values)  // NOLINT: as above
      : data_(as_bytes(values->data())), size_bytes_(bytes_of(values->size(), sizeof(T))) {
    owner_ = std::move(values);
  }
  template <class T>
  requires(std::is_trivially_copyable_v<T>&& std::is_const_v<Byte>)
      BasicHostBytes(std::shared_ptr<const std::vector<T>> values)  // NOLINT: as above
      : data_(as_bytes(values->data())), size_bytes_(bytes_of(values->size(), sizeof(T))) {
    owner_ = std::move(values);
  }
  /// What may be written may be read.
  template <class Other>
  requires(std::is_const_v<Byte>&& std::is_same_v<const Other, Byte> && !std::is_const_v<Other>)
      BasicHostBytes(const BasicHostBytes<Other>& other)  // NOLINT: as for pointers
      : data_(other.data()), size_bytes_(other.size_bytes()), owner_(other.owner()) {}

  /// Memory of another owner; without one the caller keeps it until the transfer's event.
  template <class T>
  requires(std::is_trivially_copyable_v<T> &&
           (std::is_const_v<Byte> || !std::is_const_v<T>)) static BasicHostBytes
      borrow(std::span<T> values, Owner keep_alive) {
    return {as_bytes(values.data()), bytes_of(values.size(), sizeof(T)), std::move(keep_alive)};
  }
  /// A copy of its own.
  template <class T>
  static BasicHostBytes copy(std::span<T> values) {
    return std::vector<std::remove_const_t<T>>(values.begin(), values.end());
  }
  /// Fresh memory of zeros; throws std::bad_alloc or std::length_error for what can't be had.
  static BasicHostBytes allocate(std::int64_t bytes) {
    return std::vector<std::byte>(static_cast<std::size_t>(bytes));
  }

  Byte* data() const { return data_; }
  std::int64_t size_bytes() const { return size_bytes_; }
  const Owner& owner() const { return owner_; }
  /// The whole elements that are there.
  template <class T>
  std::span<std::conditional_t<std::is_const_v<Byte>, const T, T>> elements() const {
    using Element = std::conditional_t<std::is_const_v<Byte>, const T, T>;
    return {reinterpret_cast<Element*>(data_),  // NOLINT: it was made of such elements
            static_cast<std::size_t>(size_bytes_) / sizeof(T)};
  }
  /// The same memory without its first bytes, with the same owner; at most all are left out.
  BasicHostBytes from(std::int64_t offset_bytes) const {
    const std::int64_t offset =
        offset_bytes < 0 ? 0 : (offset_bytes > size_bytes_ ? size_bytes_ : offset_bytes);
    return {data_ + offset, size_bytes_ - offset, owner_};
  }

 private:
  BasicHostBytes(Byte* data, std::int64_t size_bytes, Owner owner)
      : data_(data), size_bytes_(size_bytes), owner_(std::move(owner)) {}
  template <class T>
  static Byte* as_bytes(T* values) {
    return reinterpret_cast<Byte*>(values);  // NOLINT: bytes may alias anything
  }
  static std::int64_t bytes_of(std::size_t count, std::size_t size) {
    return static_cast<std::int64_t>(count * size);  // of memory that exists
  }

  Byte* data_ = nullptr;
  std::int64_t size_bytes_ = 0;
  Owner owner_;
};

/// Read by transfers to a device.
using HostBytes = BasicHostBytes<const std::byte>;
/// Written by transfers from a device.
using MutableHostBytes = BasicHostBytes<std::byte>;

}  // namespace tilemesh
