#include <cmath>
#include <numbers>

#include <fmt/format.h>

#include "compiler/onnx/importer.hpp"
#include "compiler/onnx/tensor.hpp"

/// Operators that make tensors out of nothing, shapes or single numbers: always constants.
namespace tilemesh::onnx_importer {
namespace {

// A hostile model could ask for any size.
constexpr std::int64_t kMaxElements = std::int64_t{1} << 25;

void check_size(const Node& node, std::int64_t count) {
  if (count > kMaxElements) {
    node.unsupported(
        fmt::format("it makes {} elements, up to {} are supported", count, kMaxElements));
  }
}

void constant(Node& node) {
  if (auto value = node.tensor("value")) {
    node.set(0, node.constant(std::move(*value)));
  } else if (node.has_attribute("value_int")) {
    node.set(0, node.constant(make_constant<std::int64_t>({}, {node.integer("value_int", 0)})));
  } else if (node.has_attribute("value_ints")) {
    node.set(0, node.integers_constant(node.integers("value_ints")));
  } else if (node.has_attribute("value_float")) {
    const auto number = static_cast<float>(node.number("value_float", 0));
    node.set(0, node.constant(make_constant<float>({}, {number})));
  } else if (node.has_attribute("value_floats")) {
    const std::vector<double> numbers = node.numbers("value_floats");
    const std::vector<float> values(numbers.begin(), numbers.end());
    node.set(0, node.constant(make_constant(Shape{std::ssize(values)}, values)));
  } else {
    node.unsupported("sparse and string constants aren't supported");
  }
}

// One size of a shape: a number, or the count where it depends on the data.
Value size_along(Node& node, Value x, int dim) {
  for (const CountedDim& counted : node.importer().counted_dims(x)) {
    if (counted.dim == dim) return node.reshape(counted.count, Shape{1});
  }
  return node.integers_constant({node.shape(x)[dim]});
}

void shape(Node& node) {
  const Shape of = node.shape(node.in(0));
  const int rank = of.rank();
  const auto clamped = [&](std::int64_t at) {
    return std::clamp<std::int64_t>(at < 0 ? at + rank : at, 0, rank);
  };
  const std::int64_t start = clamped(node.integer("start", 0));
  const std::int64_t end = clamped(node.integer("end", rank));
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = start; i < end; ++i)
    sizes.push_back(of[static_cast<int>(i)]);
  if (node.importer().counted_dims(node.in(0)).empty() || sizes.empty()) {
    return node.set(0, node.integers_constant(sizes));
  }
  std::vector<Value> parts;
  for (std::int64_t i = start; i < end; ++i)
    parts.push_back(size_along(node, node.in(0), static_cast<int>(i)));
  node.set(0, node.emit("concat", parts, {{"axis", std::int64_t{0}}}));
}

void size(Node& node) {
  const std::int64_t count = node.shape(node.in(0)).element_count();
  node.set(0, node.constant(make_constant<std::int64_t>({}, {count})));
}

void constant_of_shape(Node& node) {
  ConstantData value = filled(DType::f32, {}, 0);
  if (auto given = node.tensor("value")) value = std::move(*given);
  if (value.shape.element_count() != 1) {
    node.invalid(fmt::format("its value must be one number, not {}", value.shape.to_string()));
  }
  value.shape = {};
  const Shape shape(node.known_integers(0, "shape"));
  node.set(0, node.expand(node.constant(std::move(value)), shape));
}

template <class T>
ConstantData range_of(const Node& node) {
  const T start = read_as<T>(node.known(0, "start"))[0];
  const T delta = read_as<T>(node.known(2, "delta"))[0];
  const double limit = node.known_number(1, "limit");
  const double steps = std::ceil((limit - static_cast<double>(start)) / static_cast<double>(delta));
  if (delta == T{} || !std::isfinite(steps)) node.invalid("its delta leads nowhere");
  check_size(node, steps > 1e18 ? std::int64_t{1} << 60 : static_cast<std::int64_t>(steps));
  std::vector<T> values(static_cast<std::size_t>(std::max(steps, 0.0)));
  for (std::size_t i = 0; i < values.size(); ++i) {
    // In two's complement, so that a hostile start can't overflow.
    if constexpr (std::is_integral_v<T>) {
      const auto offset = static_cast<std::uint64_t>(i) * static_cast<std::uint64_t>(delta);
      values[i] = static_cast<T>(static_cast<std::uint64_t>(start) + offset);
    } else {
      values[i] = start + static_cast<T>(i) * delta;
    }
  }
  return make_constant(Shape{std::ssize(values)}, values);
}

void range(Node& node) {
  for (int i = 0; i < 3; ++i)
    static_cast<void>(node.known_number(i, i == 0 ? "start" : i == 1 ? "limit" : "delta"));
  const DType dtype = node.dtype(node.in(0));
  if (!is_float(dtype) && !is_integer(dtype)) {
    node.unsupported(fmt::format("ranges of {} aren't supported", to_string(dtype)));
  }
  const Value values =
      node.constant(visit_dtype(dtype, [&]<class T>(std::type_identity<T>) -> ConstantData {
        if constexpr (std::is_arithmetic_v<T> && !std::is_same_v<T, bool>) {
          return range_of<T>(node);
        } else {
          return range_of<float>(node);
        }
      }));
  node.set(0, node.cast(values, dtype));
}

void eye_like(Node& node) {
  const Shape like = node.shape(node.in(0));
  if (like.rank() != 2) node.invalid(fmt::format("it wants a matrix, not {}", like.to_string()));
  const DType dtype = node.has_attribute("dtype") ? dtype_of(node.integer("dtype", 0), "dtype")
                                                  : node.dtype(node.in(0));
  const std::int64_t k = node.integer("k", 0);
  check_size(node, like.element_count());
  std::vector<std::int64_t> values(static_cast<std::size_t>(like.element_count()), 0);
  for (std::int64_t row = 0; row < like[0]; ++row) {
    std::int64_t column = 0;
    if (__builtin_add_overflow(row, k, &column) || column < 0 || column >= like[1]) continue;
    values[static_cast<std::size_t>(row * like[1] + column)] = 1;
  }
  node.set(0, node.cast(node.constant(make_constant(like, values)), dtype));
}

// The cosine windows: a0 - a1 cos(2 pi n / N) + a2 cos(4 pi n / N).
void window(Node& node) {
  const std::int64_t count = node.known_integer(0, "size");
  if (count < 0) node.invalid(fmt::format("its size is {}", count));
  check_size(node, count);
  const bool periodic = node.integer("periodic", 1) != 0;
  const DType dtype = dtype_of(node.integer("output_datatype", 1), "output_datatype");
  const std::string_view name = node.row().name;
  const bool blackman = name == "BlackmanWindow";
  const double a0 = blackman ? 0.42 : name == "HannWindow" ? 0.5 : 25.0 / 46.0;
  const double a1 = blackman ? 0.5 : 1 - a0;
  const double a2 = blackman ? 0.08 : 0;
  const double period = static_cast<double>(periodic ? count : count - 1);
  std::vector<double> values(static_cast<std::size_t>(count));
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double angle = 2 * std::numbers::pi * static_cast<double>(i) / period;
    values[i] = a0 - a1 * std::cos(angle) + a2 * std::cos(2 * angle);
  }
  node.set(0, node.cast(node.constant(make_constant(Shape{count}, values)), dtype));
}

constexpr OnnxOp kRows[] = {
    {.name = "BlackmanWindow", .since = 17, .handler = window, .values_needed = 1},
    {.name = "Constant", .handler = constant},
    {.name = "ConstantOfShape", .since = 9, .handler = constant_of_shape, .values_needed = 1},
    {.name = "EyeLike", .since = 9, .handler = eye_like},
    {.name = "HammingWindow", .since = 17, .handler = window, .values_needed = 1},
    {.name = "HannWindow", .since = 17, .handler = window, .values_needed = 1},
    {.name = "Range", .since = 11, .handler = range, .values_needed = 0b111},
    {.name = "Shape", .handler = shape},
    {.name = "Size", .handler = size},
};

}  // namespace

std::span<const OnnxOp> generator_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
