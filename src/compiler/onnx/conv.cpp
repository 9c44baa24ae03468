#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/node.hpp"

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
  const Value x = node.in(0);
  Window window = read_window(node, kernel_of_weights(node, x, node.in(1)));
  resolve_auto_pad(node, node.shape(x), window);
  node.set(0, node.emit("conv", conv_operands(node),
                        {{"strides", window.strides},
                         {"pads", window.pads},
                         {"dilations", window.dilations},
                         {"group", node.integer("group", 1)}}));
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

Attributes pool_attributes(const Node& node) {
  const Value x = node.in(0);
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

void max_pool(Node& node) {
  Attributes attributes = pool_attributes(node);
  attributes.set("storage_order", node.integer("storage_order", 0));
  const int outputs = node.wants(1) ? 2 : 1;
  node.set_all(node.emit_many("max_pool", {node.in(0)}, std::move(attributes), outputs));
}

void average_pool(Node& node) {
  Attributes attributes = pool_attributes(node);
  attributes.set("count_include_pad", node.integer("count_include_pad", 0));
  node.set(0, node.emit("average_pool", {node.in(0)}, std::move(attributes)));
}

constexpr OnnxOp kRows[] = {
    {.name = "AveragePool", .since = 7, .handler = average_pool},
    {.name = "Conv", .handler = conv},
    {.name = "ConvTranspose", .handler = conv_transpose},
    {.name = "GlobalAveragePool", .handler = direct, .op = "global_average_pool"},
    {.name = "GlobalMaxPool", .handler = direct, .op = "global_max_pool"},
    {.name = "MaxPool", .handler = max_pool},
};

}  // namespace

std::span<const OnnxOp> conv_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
