#include "compiler/passes/constants.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include "tilemesh/types/dtype_traits.hpp"
#include "tilemesh/types/strided.hpp"

namespace tilemesh::passes {

bool is_mapped(DType dtype) {
  return dtype == DType::f32 || dtype == DType::f16 || dtype == DType::bf16;
}

namespace {

constexpr std::int64_t kLargestSplat = 1 << 16;

void convert(const std::byte* source, DType from, std::byte* target, DType to, const Shape& shape) {
  const Dims strides = row_major_strides(shape);
  copy_strided({source, from, shape, strides}, {target, to, shape, strides});
}

}  // namespace

std::optional<double> splat(const Graph& graph, GraphValueId id) {
  if (!graph.is_constant(id)) return std::nullopt;
  const ConstantData& data = *graph[id].constant;
  const std::int64_t count = data.shape.element_count();
  if (count == 0 || count > kLargestSplat) return std::nullopt;
  const auto size = static_cast<std::size_t>(size_of(data.dtype));
  const std::byte* first = data.bytes->data();
  for (std::size_t i = size; i < data.bytes->size(); i += size) {
    if (std::memcmp(first, first + i, size) != 0) return std::nullopt;
  }
  double value = 0;
  convert(first, data.dtype, reinterpret_cast<std::byte*>(&value), DType::f64, {});
  const bool is_exact = is_float(data.dtype) || std::abs(value) <= 9007199254740992.0;
  return is_exact ? std::optional(value) : std::nullopt;
}

bool is_about(double a, double b) {
  return std::abs(a - b) <= 0x1p-23 * std::abs(b);
}

std::vector<float> to_floats(const ConstantData& data) {
  std::vector<float> values(static_cast<std::size_t>(data.shape.element_count()));
  convert(data.bytes->data(), data.dtype, reinterpret_cast<std::byte*>(values.data()), DType::f32,
          data.shape);
  return values;
}

ConstantData from_floats(DType dtype, const Shape& shape, const std::vector<float>& values) {
  TILEMESH_CHECK(std::cmp_equal(values.size(), shape.element_count()),
                 "a constant's values don't fit its shape");
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() *
                                                        static_cast<std::size_t>(size_of(dtype)));
  convert(reinterpret_cast<const std::byte*>(values.data()), DType::f32, bytes->data(), dtype,
          shape);
  return {dtype, shape, std::move(bytes)};
}

std::optional<std::vector<float>> per_index(const Graph& graph, GraphValueId id, const Shape& shape,
                                            int dim) {
  if (!graph.is_constant(id)) return std::nullopt;
  const ConstantData& data = *graph[id].constant;
  const int missing = shape.rank() - data.shape.rank();
  if (missing < 0) return std::nullopt;
  for (int d = 0; d < data.shape.rank(); ++d) {
    const bool may_vary = d + missing == dim && data.shape[d] == shape[dim];
    if (data.shape[d] != 1 && !may_vary) return std::nullopt;
  }
  std::vector<float> values = to_floats(data);
  if (values.size() == 1) values.resize(static_cast<std::size_t>(shape[dim]), values[0]);
  return values;
}

}  // namespace tilemesh::passes
