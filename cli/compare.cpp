#include "compare.hpp"

#include <cmath>
#include <cstring>
#include <limits>
#include <type_traits>

#include <fmt/format.h>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh::cli {
namespace {

template <class T>
T element(const HostArray& array, std::int64_t index) {
  if constexpr (std::is_same_v<T, bool>) {
    return array.bytes[static_cast<std::size_t>(index)] != std::byte{0};
  } else {
    T value;
    std::memcpy(&value, array.bytes.data() + static_cast<std::size_t>(index) * sizeof(T),
                sizeof(T));
    return value;
  }
}

template <class T>
double to_double(T value) {
  if constexpr (std::is_same_v<T, Half> || std::is_same_v<T, BFloat16>) {
    return static_cast<double>(static_cast<float>(value));
  } else {
    return static_cast<double>(value);
  }
}

/// The largest unit in the last place in proportion to the number; 0 if it is far below what
/// anybody asks for.
template <class T>
constexpr double last_place() {
  if constexpr (std::is_same_v<T, Half>) {
    return 0x1p-10;
  } else {
    return std::is_same_v<T, BFloat16> ? 0x1p-7 : 0;
  }
}

struct Difference {
  double absolute = 0;
  bool within = true;
};

/// `of_tensor`: what the tensor's scale allows.
Difference difference_of_floats(double got, double expected, const Tolerance& tolerance,
                                double of_tensor) {
  if (got == expected || (std::isnan(got) && std::isnan(expected))) {
    return {};
  }
  if (!std::isfinite(got) || !std::isfinite(expected)) {
    return {std::numeric_limits<double>::infinity(), false};
  }
  const double error = std::abs(got - expected);
  return {error, error <= tolerance.absolute + tolerance.relative * std::abs(expected) ||
                     error <= of_tensor};
}

template <class T>
Difference difference(T got, T expected, const Tolerance& tolerance, double of_tensor) {
  if constexpr (std::is_integral_v<T>) {
    if (got == expected) {
      return {};
    }
    // Neighbours near 2^63 are one double, but they differ.
    const double steps = std::max(1.0, std::abs(to_double(got) - to_double(expected)));
    const bool may_be_quantised = sizeof(T) <= 2 && !std::is_same_v<T, bool>;
    return {steps, may_be_quantised && steps <= tolerance.steps};
  } else {
    return difference_of_floats(to_double(got), to_double(expected), tolerance, of_tensor);
  }
}

std::string index_text(const Shape& shape, std::int64_t at) {
  std::string text;
  for (int dim = shape.rank(); dim-- > 0;) {
    text = fmt::format("{}{}{}", at % shape[dim], text.empty() ? "" : ",", text);
    at /= shape[dim];
  }
  return "[" + text + "]";
}

/// The largest finite magnitude; 0 without one.
template <class T>
double scale_of(const HostArray& array) {
  double scale = 0;
  for (std::int64_t i = 0; i < array.shape.element_count(); ++i) {
    const double magnitude = std::abs(to_double(element<T>(array, i)));
    scale = std::isfinite(magnitude) ? std::max(scale, magnitude) : scale;
  }
  return scale;
}

double ratio(double error, double scale) {
  return scale > 0 ? error / scale : std::numeric_limits<double>::infinity();
}

template <class T>
Comparison compare_elements(const HostArray& got, const HostArray& expected,
                            const Tolerance& tolerance) {
  Comparison result;
  Tolerance used = tolerance;
  used.relative = std::max(tolerance.relative, last_place<T>());
  used.scale = tolerance.scale > 0 ? std::max(tolerance.scale, last_place<T>()) : 0;
  const double scale = scale_of<T>(expected);
  const std::int64_t count = expected.shape.element_count();
  std::int64_t wrong = 0;
  std::int64_t worst = -1;
  double worst_error = -1;
  for (std::int64_t i = 0; i < count; ++i) {
    const T want = element<T>(expected, i);
    const Difference found = difference(element<T>(got, i), want, used, used.scale * scale);
    if (found.absolute > 0) {
      result.max_error = std::max(result.max_error, found.absolute);
      result.max_relative_error =
          std::max(result.max_relative_error, ratio(found.absolute, std::abs(to_double(want))));
      result.max_scaled_error = std::max(result.max_scaled_error, ratio(found.absolute, scale));
    }
    if (!found.within) {
      ++wrong;
      if (found.absolute > worst_error) {
        worst_error = found.absolute;
        worst = i;
      }
    }
  }
  if (wrong > 0) {
    result.equal = false;
    result.reason =
        fmt::format("{} of {} elements differ, worst at {}: got {}, expected {}", wrong, count,
                    index_text(expected.shape, worst), to_double(element<T>(got, worst)),
                    to_double(element<T>(expected, worst)));
  }
  return result;
}

HostArray as_floats(const HostArray& array) {
  HostArray floats{DType::f32, array.shape, {}};
  floats.bytes.resize(array.bytes.size() * sizeof(float));
  copy_strided({array.bytes.data(), array.dtype, array.shape, row_major_strides(array.shape)},
               {floats.bytes.data(), DType::f32, array.shape, row_major_strides(array.shape)});
  return floats;
}

}  // namespace

Comparison compare(const HostArray& got, const HostArray& expected, const Tolerance& tolerance) {
  if (got.dtype != expected.dtype || !(got.shape == expected.shape)) {
    constexpr double kInfinity = std::numeric_limits<double>::infinity();
    return {false, kInfinity, kInfinity, kInfinity,
            fmt::format("it is {}, expected is {}", to_string(got), to_string(expected))};
  }
  if (is_storage(got.dtype)) {
    return compare_elements<float>(as_floats(got), as_floats(expected), tolerance);
  }
  return visit_dtype(got.dtype, [&](auto type) {
    return compare_elements<typename decltype(type)::type>(got, expected, tolerance);
  });
}

}  // namespace tilemesh::cli
