#include <algorithm>
#include <numeric>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/fused.hpp"
#include "compiler/onnx/node.hpp"
#include "compiler/onnx/windows.hpp"

/// Convolutions and pools: everything that slides a window.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

/// How a window slides over the spatial dims, pads resolved.
struct Window {
  Integers kernel, strides, dilations;
  Integers pads;  ///< begins, then ends

  std::size_t rank() const { return kernel.size(); }
  std::int64_t extent(std::size_t i) const {
    return checked_add(checked_mul(kernel[i] - 1, dilations[i]), 1);
  }
};

Integers list(const Node& node, std::string_view name, std::size_t count, std::int64_t fallback) {
  Integers values = node.integers(name, Integers(count, fallback));
  if (values.empty()) values.assign(count, fallback);
  if (values.size() != count) {
    node.invalid(fmt::format("its {} has {} numbers, {} are wanted", name, values.size(), count));
  }
  return values;
}

void check_positive(const Node& node, const char* what, const Integers& values) {
  constexpr std::int64_t kMax = std::int64_t{1} << 31;
  for (const std::int64_t value : values) {
    if (value < 1 || value > kMax) node.invalid(fmt::format("it has {} of {}", what, value));
  }
}

Window read_window(const Node& node, const Integers& kernel) {
  Window window{kernel, list(node, "strides", kernel.size(), 1),
                list(node, "dilations", kernel.size(), 1),
                list(node, "pads", 2 * kernel.size(), 0)};
  check_positive(node, "a kernel", window.kernel);
  check_positive(node, "a stride", window.strides);
  check_positive(node, "a dilation", window.dilations);
  return window;
}

// The number of spatial dims of [N, C, ...].
std::size_t spatial_rank(const Node& node, Value x) {
  if (node.rank(x) < 3) {
    node.invalid(fmt::format("its input {} lacks spatial dims: [N,C,...] is wanted",
                             node.shape(x).to_string()));
  }
  return static_cast<std::size_t>(node.rank(x) - 2);
}

// Splits what is padded in all: the odd one goes to the end for SAME_UPPER.
void set_pads(Window& window, std::size_t i, std::int64_t total, bool upper) {
  const std::int64_t half = total / 2;
  window.pads[i] = upper ? half : total - half;
  window.pads[i + window.rank()] = upper ? total - half : half;
}

// auto_pad: SAME keeps ceil(size / stride) outputs, VALID pads nothing.
void resolve_auto_pad(const Node& node, const Shape& from, Window& window) {
  const std::string mode = node.text("auto_pad", "NOTSET");
  if (mode == "NOTSET" || mode.empty()) return;
  if (mode == "VALID") {
    window.pads.assign(2 * window.rank(), 0);
    return;
  }
  if (mode != "SAME_UPPER" && mode != "SAME_LOWER") {
    node.invalid(fmt::format("its auto_pad is \"{}\"", mode));
  }
  for (std::size_t i = 0; i < window.rank(); ++i) {
    const std::int64_t size = from[static_cast<int>(i) + 2];
    const std::int64_t outputs = ceil_div(size, window.strides[i]);
    const std::int64_t reach = checked_mul(outputs - 1, window.strides[i]) + window.extent(i);
    set_pads(window, i, std::max<std::int64_t>(reach - size, 0), mode == "SAME_UPPER");
  }
}

Integers kernel_of_weights(const Node& node, Value x, Value weights) {
  const std::size_t rank = spatial_rank(node, x);
  const Shape shape = node.shape(weights);
  if (std::cmp_not_equal(shape.rank(), rank + 2)) {
    node.invalid(fmt::format("its weights {} don't fit its input {}", shape.to_string(),
                             node.shape(x).to_string()));
  }
  const Integers kernel(shape.begin() + 2, shape.end());
  if (const Integers said = list(node, "kernel_shape", rank, 0);
      node.has_attribute("kernel_shape") && said != kernel) {
    node.invalid(fmt::format("its kernel_shape is [{}], its weights are {}", fmt::join(said, ","),
                             shape.to_string()));
  }
  return kernel;
}

std::vector<Value> conv_operands(const Node& node) {
  std::vector<Value> operands = {node.in(0), node.in(1)};
  if (node.has(2)) operands.push_back(node.in(2));
  return operands;
}

void conv(Node& node) {
  node.set(0, convolved(node));
}

// Pads of a transposed convolution follow from the output's size where that is given, or where
// auto_pad asks for size * stride. What no pad can give is output padding.
void resolve_output_size(const Node& node, const Shape& from, Window& window,
                         Integers& output_padding) {
  const std::string mode = node.text("auto_pad", "NOTSET");
  const bool same = mode == "SAME_UPPER" || mode == "SAME_LOWER";
  if (mode == "VALID") window.pads.assign(2 * window.rank(), 0);
  Integers wanted = node.integers("output_shape");
  if (wanted.empty() && !same) return;
  if (wanted.size() == window.rank() + 2) wanted.erase(wanted.begin(), wanted.begin() + 2);
  if (wanted.empty()) {
    for (std::size_t i = 0; i < window.rank(); ++i)
      wanted.push_back(checked_mul(from[static_cast<int>(i) + 2], window.strides[i]));
  }
  if (wanted.size() != window.rank()) {
    node.invalid(fmt::format("its output_shape has {} numbers, {} are wanted", wanted.size(),
                             window.rank()));
  }
  for (std::size_t i = 0; i < window.rank(); ++i) {
    const std::int64_t size = from[static_cast<int>(i) + 2];
    const std::int64_t full =
        checked_add(checked_mul(size - 1, window.strides[i]), output_padding[i] + window.extent(i));
    output_padding[i] += std::max<std::int64_t>(wanted[i] - full, 0);
    set_pads(window, i, std::max<std::int64_t>(full - wanted[i], 0), mode == "SAME_UPPER");
  }
}

void conv_transpose(Node& node) {
  const Value x = node.in(0);
  Window window = read_window(node, kernel_of_weights(node, x, node.in(1)));
  Integers output_padding = list(node, "output_padding", window.rank(), 0);
  resolve_output_size(node, node.shape(x), window, output_padding);
  node.set(0, node.emit("conv_transpose", conv_operands(node),
                        {{"strides", window.strides},
                         {"pads", window.pads},
                         {"dilations", window.dilations},
                         {"output_padding", output_padding},
                         {"group", node.integer("group", 1)}}));
}

void max_pool(Node& node) {
  Attributes attributes = pool_attributes(node, node.in(0));
  attributes.set("storage_order", node.integer("storage_order", 0));
  const int outputs = node.wants(1) ? 2 : 1;
  node.set_all(node.emit_many("max_pool", {node.in(0)}, std::move(attributes), outputs));
}

void average_pool(Node& node) {
  Attributes attributes = pool_attributes(node, node.in(0));
  attributes.set("count_include_pad", node.integer("count_include_pad", 0));
  node.set(0, node.emit("average_pool", {node.in(0)}, std::move(attributes)));
}

std::int64_t norm_of(const Node& node) {
  const std::int64_t p = node.integer("p", 2);
  if (p < 1) node.invalid(fmt::format("its p is {}", p));
  return p;
}

// |x|^p, and what undoes it. Half types would overflow between.
Value powers(Node& node, Value x, std::int64_t p) {
  const DType dtype = node.dtype(x);
  if (is_float(dtype) && size_of(dtype) < 4) x = node.cast(x, DType::f32);
  if (p == 2) return node.emit("mul", {x, x});
  const Value sizes = node.emit("abs", {x});
  if (p == 1) return sizes;
  return node.emit("pow", {sizes, node.scalar(node.dtype(x), static_cast<double>(p))});
}

Value root(Node& node, Value sum, std::int64_t p, DType dtype) {
  if (p == 2) {
    sum = node.emit("sqrt", {sum});
  } else if (p != 1) {
    sum = node.emit("pow", {sum, node.scalar(node.dtype(sum), 1 / static_cast<double>(p))});
  }
  return node.cast(sum, dtype);
}

// Pads the end so far that the windows of ceil_mode need nothing behind it.
void pad_for_ceil(const Shape& x, Window& window) {
  for (std::size_t i = 0; i < window.rank(); ++i) {
    const std::int64_t size = x[static_cast<int>(i) + 2] + window.pads[i];
    std::int64_t& end = window.pads[i + window.rank()];
    const std::int64_t room = size + end - window.extent(i);
    const std::int64_t stride = window.strides[i];
    const bool starts_inside = room >= 0 && (room / stride + 1) * stride < size;
    if (room % stride != 0 && starts_inside) end += stride - room % stride;
  }
}

// A mean over windows that lie inside the input and its zeros, times their size.
void lp_pool(Node& node) {
  const Value x = node.in(0);
  const std::int64_t p = norm_of(node);
  const Integers kernel = node.required_integers("kernel_shape");
  if (kernel.size() != spatial_rank(node, x)) {
    node.invalid(fmt::format("its kernel_shape has {} numbers for {}", kernel.size(),
                             node.shape(x).to_string()));
  }
  Window window = read_window(node, kernel);
  resolve_auto_pad(node, node.shape(x), window);
  if (node.integer("ceil_mode", 0) != 0) pad_for_ceil(node.shape(x), window);
  std::int64_t taps = 1;
  for (const std::int64_t size : kernel)
    taps = checked_mul(taps, size);
  const Value mean = node.emit("average_pool", {powers(node, x, p)},
                               {{"kernel", window.kernel},
                                {"strides", window.strides},
                                {"pads", window.pads},
                                {"dilations", window.dilations},
                                {"count_include_pad", std::int64_t{1}}});
  const Value taken = node.scalar(node.dtype(mean), static_cast<double>(taps));
  node.set(0, root(node, node.emit("mul", {mean, taken}), p, node.dtype(x)));
}

void global_lp_pool(Node& node) {
  const Value x = node.in(0);
  const std::int64_t p = norm_of(node);
  Integers axes(spatial_rank(node, x));
  std::iota(axes.begin(), axes.end(), 2);
  const Value sum = node.emit("reduce_sum", {powers(node, x, p)},
                              {{"axes", axes}, {"keepdims", std::int64_t{1}}});
  node.set(0, root(node, sum, p, node.dtype(x)));
}

// Where the elements come from that a pool took, by its kernel, strides and pads.
Shape unpooled_shape(const Node& node, const Shape& x) {
  const Window window = read_window(node, node.required_integers("kernel_shape"));
  Integers sizes = {x[0], x[1]};
  for (std::size_t i = 0; i < window.rank(); ++i) {
    const std::int64_t reach = checked_mul(x[static_cast<int>(i) + 2] - 1, window.strides[i]);
    sizes.push_back(reach + window.kernel[i] - window.pads[i] - window.pads[i + window.rank()]);
  }
  return Shape(std::span<const std::int64_t>(sizes));
}

// The indices count in the shape that the pool's window gives; a larger output is filled up with
// zeros at the ends.
void max_unpool(Node& node) {
  const Value x = node.in(0);
  const Value indices = node.in(1);
  const Shape shape = node.shape(x);
  if (spatial_rank(node, x) != node.required_integers("kernel_shape").size() ||
      !(node.shape(indices) == shape)) {
    node.invalid(fmt::format("its indices {} or its kernel_shape don't fit its input {}",
                             node.shape(indices).to_string(), shape.to_string()));
  }
  const Shape inner = unpooled_shape(node, shape);
  const Value zero = node.scalar(node.dtype(x), 0);
  const Value room = node.expand(zero, Shape{inner.element_count()});
  const Shape row{shape.element_count()};
  const Value flat =
      node.emit("scatter_elements", {room, node.reshape(indices, row), node.reshape(x, row)},
                {{"axis", std::int64_t{0}}, {"reduction", "none"}});
  Value y = node.reshape(flat, inner);
  if (node.has(2)) {
    const Integers wanted = node.known_integers(2, "output_shape");
    Integers pads(2 * static_cast<std::size_t>(inner.rank()), 0);
    for (int d = 0; d < inner.rank(); ++d) {
      const auto i = static_cast<std::size_t>(d);
      if (std::cmp_not_equal(wanted.size(), inner.rank()) || wanted[i] < inner[d]) {
        node.invalid(fmt::format("its output_shape is [{}], its window gives {}",
                                 fmt::join(wanted, ","), inner.to_string()));
      }
      pads[i + wanted.size()] = wanted[i] - inner[d];
    }
    y = node.emit("pad", {y, zero}, {{"pads", pads}});
  }
  node.set(0, y);
}

// The image has as many spatial dims as the kernel.
void col2im(Node& node) {
  const Integers image = node.known_integers(1, "image_shape");
  const Integers kernel = node.known_integers(2, "block_shape");
  if (kernel.size() != image.size()) {
    node.invalid(
        fmt::format("its image has {} dims, its blocks have {}", image.size(), kernel.size()));
  }
  const Window window = read_window(node, kernel);
  node.set(0, node.emit("col2im", {node.in(0)},
                        {{"image", image},
                         {"kernel", window.kernel},
                         {"strides", window.strides},
                         {"pads", window.pads},
                         {"dilations", window.dilations}}));
}

}  // namespace

Value convolved(Node& node) {
  const Value x = node.in(0);
  Window window = read_window(node, kernel_of_weights(node, x, node.in(1)));
  resolve_auto_pad(node, node.shape(x), window);
  return node.emit("conv", conv_operands(node),
                   {{"strides", window.strides},
                    {"pads", window.pads},
                    {"dilations", window.dilations},
                    {"group", node.integer("group", 1)}});
}

namespace {

constexpr OnnxOp kRows[] = {
    {.name = "AveragePool", .since = 7, .handler = average_pool},
    {.name = "Col2Im", .since = 18, .handler = col2im, .values_needed = 0b110},
    {.name = "Conv", .handler = conv},
    {.name = "ConvTranspose", .handler = conv_transpose},
    {.name = "GlobalAveragePool", .handler = direct, .op = "global_average_pool"},
    {.name = "GlobalMaxPool", .handler = direct, .op = "global_max_pool"},
    {.name = "GlobalLpPool", .since = 2, .handler = global_lp_pool},
    {.name = "LpPool", .since = 2, .handler = lp_pool},
    {.name = "MaxPool", .handler = max_pool},
    {.name = "MaxUnpool", .since = 9, .handler = max_unpool, .values_needed = 0b100},
};

}  // namespace

Attributes conv_attributes(const Node& node, Value x, Value weights) {
  Window window = read_window(node, kernel_of_weights(node, x, weights));
  resolve_auto_pad(node, node.shape(x), window);
  return {{"strides", window.strides},
          {"pads", window.pads},
          {"dilations", window.dilations},
          {"group", node.integer("group", 1)}};
}

Attributes pool_attributes(const Node& node, Value x) {
  const std::size_t rank = spatial_rank(node, x);
  const Integers kernel = node.required_integers("kernel_shape");
  if (kernel.size() != rank) {
    node.invalid(
        fmt::format("its kernel_shape has {} numbers, {} are wanted", kernel.size(), rank));
  }
  Window window = read_window(node, kernel);
  resolve_auto_pad(node, node.shape(x), window);
  return {{"kernel", window.kernel},
          {"strides", window.strides},
          {"pads", window.pads},
          {"dilations", window.dilations},
          {"ceil_mode", node.integer("ceil_mode", 0)}};
}

Value to_channels_first(Node& node, Value x) {
  Integers order(spatial_rank(node, x) + 2);
  std::iota(order.begin() + 2, order.end(), 1);
  order[1] = node.rank(x) - 1;
  return node.transpose(x, order);
}

Value to_channels_last(Node& node, Value x) {
  Integers order(spatial_rank(node, x) + 2);
  std::iota(order.begin() + 1, order.end(), 2);
  order.back() = 1;
  return node.transpose(x, order);
}

std::span<const OnnxOp> conv_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
