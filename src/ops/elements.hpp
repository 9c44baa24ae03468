#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <type_traits>
#include <utility>
#include <vector>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

#include "support.hpp"

/// How references read and write elements: whole operands as vectors of the few types that they
/// compute in, so that one template serves all dtypes.
namespace tilemesh::ops {

/// Strided copy of `count` elements given as types; `target` is row-major of `shape`.
void copy_elements(const std::byte* source, DType source_dtype, const Dims& source_strides,
                   std::byte* target, DType target_dtype, const Shape& shape);

/// An operand's elements as T, row-major; no copy where the dtype is T already.
template <class T>
class Loaded {
 public:
  Loaded(const std::byte* data, const OperandType& type) : Loaded(data, type, type.shape) {}
  /// Broadcast to `target`.
  Loaded(const std::byte* data, const OperandType& type, const Shape& target) {
    if (type.dtype == kDTypeOf<T> && type.shape == target) {
      first_ = reinterpret_cast<const T*>(data);
      return;
    }
    values_.resize(static_cast<std::size_t>(target.element_count()));
    copy_elements(data, type.dtype, broadcast_strides(type.shape, target),
                  reinterpret_cast<std::byte*>(values_.data()), kDTypeOf<T>, target);
    first_ = values_.data();
  }

  const T* data() const { return first_; }
  T operator[](std::int64_t i) const { return first_[i]; }

 private:
  std::vector<T> values_;
  const T* first_ = nullptr;
};

/// Writes row-major elements to an output, converted to its dtype.
template <class T>
void store(const std::vector<T>& values, const OperandType& type, std::byte* target) {
  copy_elements(reinterpret_cast<const std::byte*>(values.data()), kDTypeOf<T>,
                row_major_strides(type.shape), target, type.dtype, type.shape);
}

template <class T>
std::vector<T> zeros(std::int64_t count) {
  return std::vector<T>(static_cast<std::size_t>(count));
}

/// Calls `visitor(std::type_identity<T>{})` with the type that holds a dtype's values and their
/// intermediate results exactly enough: double (for storage formats too), std::int64_t or
/// std::uint64_t.
template <class Visitor>
decltype(auto) visit_wide(DType dtype, Visitor&& visitor) {
  if (is_float(dtype) || is_storage(dtype)) return visitor(std::type_identity<double>{});
  if (is_integer(dtype) && !is_signed_integer(dtype)) {
    return visitor(std::type_identity<std::uint64_t>{});
  }
  return visitor(std::type_identity<std::int64_t>{});
}

/// The same for sums of products: float (summed in double), double, or std::int64_t for all
/// integers (sums wrap, so their sign doesn't matter).
template <class Visitor>
decltype(auto) visit_product(DType dtype, Visitor&& visitor) {
  if (dtype == DType::f64) return visitor(std::type_identity<double>{});
  if (is_float(dtype)) return visitor(std::type_identity<float>{});
  return visitor(std::type_identity<std::int64_t>{});
}
/// What sums of T are kept in; unsigned, since integers wrap.
template <class T>
using Sum = std::conditional_t<std::is_floating_point_v<T>, double, std::uint64_t>;

template <class T>
bool is_nan(T x) {
  if constexpr (std::is_floating_point_v<T>) {
    return std::isnan(x);
  } else {
    return false;
  }
}

/// Integer arithmetic that wraps instead of being undefined.
template <class T>
T wrapping_add(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a + b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) + static_cast<std::uint64_t>(b));
  }
}
template <class T>
T wrapping_sub(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a - b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) - static_cast<std::uint64_t>(b));
  }
}
template <class T>
T wrapping_mul(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    return a * b;
  } else {
    return static_cast<T>(static_cast<std::uint64_t>(a) * static_cast<std::uint64_t>(b));
  }
}

/// Fills a row-major output with elements picked from elsewhere: `source_of(index)` is the offset
/// in elements in `source`, or -1 for `fill` (one element; null: zero).
template <class SourceOf>
void pick(const std::byte* source, const std::byte* fill, const OperandType& output,
          std::byte* target, const SourceOf& source_of) {
  const std::int64_t bytes = size_of(output.dtype);
  const std::byte zero[8] = {};
  Dims index = zero_index(output.shape);
  for (std::int64_t i = 0; i < output.shape.element_count(); ++i) {
    const std::int64_t offset = source_of(std::as_const(index));
    const std::byte* from = offset >= 0 ? source + offset * bytes : fill != nullptr ? fill : zero;
    target = std::copy(from, from + bytes, target);
    next_index(index, output.shape);
  }
}

/// The ends of an integer dtype's (or bool's) range.
std::pair<std::int64_t, std::uint64_t> integer_range(DType dtype);

/// The elements of an index operand (i32 or i64), wrapped from the back where negative; throws
/// kernel_failed naming the index and the size where one is outside.
std::vector<std::int64_t> load_indices(const std::byte* data, const OperandType& type,
                                       std::int64_t size);
/// One index, checked likewise.
std::int64_t wrapped_index(std::int64_t index, std::int64_t size);

}  // namespace tilemesh::ops
