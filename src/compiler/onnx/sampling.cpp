#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/node.hpp"

/// Operators that read images between their elements, and regions of them.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

// A hostile model could ask for any size.
constexpr std::int64_t kMaxGrid = std::int64_t{1} << 25;

// The modes had other names before opset 20.
std::string grid_mode(const Node& node) {
  const std::string mode = node.text("mode", node.version() < 20 ? "bilinear" : "linear");
  if (mode == "bilinear") return "linear";
  return mode == "bicubic" ? "cubic" : mode;
}

void grid_sample(Node& node) {
  node.set(0, node.emit("grid_sample", {node.in(0), node.in(1)},
                        {{"mode", grid_mode(node)},
                         {"padding", node.text("padding_mode", "zeros")},
                         {"align_corners", node.integer("align_corners", 0)}}));
}

/// Where the elements of a dim lie between -1 and 1.
std::vector<double> places_along(std::int64_t size, bool align_corners) {
  std::vector<double> places(static_cast<std::size_t>(size));
  const auto n = static_cast<double>(size);
  for (std::size_t i = 0; i < places.size(); ++i) {
    const auto at = static_cast<double>(i);
    places[i] = !align_corners ? (2 * at + 1) / n - 1 : size == 1 ? 0 : 2 * at / (n - 1) - 1;
  }
  return places;
}

// Every place of the image as (x, y, 1) or (x, y, z, 1), one a row.
std::vector<double> homogeneous_places(const Integers& image, bool align_corners) {
  std::vector<std::vector<double>> along;
  std::int64_t count = 1;
  for (const std::int64_t size : image) {
    along.push_back(places_along(size, align_corners));
    count *= size;
  }
  std::vector<double> rows;
  for (std::int64_t i = 0; i < count; ++i) {
    std::int64_t rest = i;
    for (std::size_t d = image.size(); d-- > 0; rest /= image[d])
      rows.push_back(along[d][static_cast<std::size_t>(rest % image[d])]);
    rows.push_back(1);
  }
  return rows;
}

void affine_grid(Node& node) {
  const Value theta = node.in(0);
  const Integers size = node.known_integers(1, "size");
  const std::int64_t spatial = std::ssize(size) - 2;
  if (spatial != 2 && spatial != 3) {
    node.invalid(
        fmt::format("its size has {} numbers: [N,C,H,W] or [N,C,D,H,W] is wanted", size.size()));
  }
  if (!(node.shape(theta) == Shape{size[0], spatial, spatial + 1})) {
    node.invalid(fmt::format("its theta is {}, [{},{},{}] is wanted", node.shape(theta).to_string(),
                             size[0], spatial, spatial + 1));
  }
  const Integers image(size.begin() + 2, size.end());
  const std::int64_t count = Shape(std::span<const std::int64_t>(image)).element_count();
  if (count > kMaxGrid) {
    node.unsupported(
        fmt::format("its grid has {} places, up to {} are supported", count, kMaxGrid));
  }
  const bool align_corners = node.integer("align_corners", 0) != 0;
  const Value places =
      node.cast(node.constant(make_constant(Shape{count, spatial + 1},
                                            homogeneous_places(image, align_corners))),
                node.dtype(theta));
  const Value grid = node.emit("matmul", {places, theta}, {{"transpose_b", std::int64_t{1}}});
  Integers shape = image;
  shape.insert(shape.begin(), size[0]);
  shape.push_back(spatial);
  node.set(0, node.reshape(grid, Shape(std::span<const std::int64_t>(shape))));
}

void roi_align(Node& node) {
  const std::string mode = node.text("coordinate_transformation_mode",
                                     node.version() < 16 ? "output_half_pixel" : "half_pixel");
  if (mode != "half_pixel" && mode != "output_half_pixel") {
    node.invalid(fmt::format("its coordinate_transformation_mode is \"{}\"", mode));
  }
  node.set(0, node.emit("roi_align", {node.in(0), node.in(1), node.in(2)},
                        {{"mode", node.text("mode", "avg")},
                         {"output_height", node.integer("output_height", 1)},
                         {"output_width", node.integer("output_width", 1)},
                         {"sampling_ratio", node.integer("sampling_ratio", 0)},
                         {"spatial_scale", node.number("spatial_scale", 1)},
                         {"half_pixel", std::int64_t{mode == "half_pixel" ? 1 : 0}}}));
}

void max_roi_pool(Node& node) {
  const Integers pooled = node.required_integers("pooled_shape");
  if (pooled.size() != 2) {
    node.invalid(fmt::format("its pooled_shape has {} numbers, 2 are wanted", pooled.size()));
  }
  node.set(0, node.emit("max_roi_pool", {node.in(0), node.in(1)},
                        {{"output_height", pooled[0]},
                         {"output_width", pooled[1]},
                         {"spatial_scale", node.number("spatial_scale", 1)}}));
}

// What the taps read, laid out as the columns of a product with the weights.
Value deformed_columns(Node& node, const Shape& weights) {
  const Integers kernel(weights.begin() + 2, weights.end());
  if (const Integers said = node.integers("kernel_shape", kernel); said != kernel) {
    node.invalid(
        fmt::format("its kernel_shape has other sizes than its weights {}", weights.to_string()));
  }
  std::vector<Value> operands = {node.in(0), node.in(2)};
  if (node.has(4)) operands.push_back(node.in(4));
  return node.emit("deform_columns", operands,
                   {{"kernel", kernel},
                    {"strides", node.integers("strides", {1, 1})},
                    {"dilations", node.integers("dilations", {1, 1})},
                    {"pads", node.integers("pads", {0, 0, 0, 0})},
                    {"offset_group", node.integer("offset_group", 1)}});
}

void deform_conv(Node& node) {
  const Shape x = node.shape(node.in(0));
  const Shape weights = node.shape(node.in(1));
  const Shape offset = node.shape(node.in(2));
  const std::int64_t group = node.integer("group", 1);
  if (x.rank() != 4) node.unsupported(fmt::format("its input is {}, not [N,C,H,W]", x.to_string()));
  if (weights.rank() != 4 || offset.rank() != 4 || group < 1 || weights[0] % group != 0 ||
      x[1] != checked_mul(weights[1], group)) {
    node.invalid(fmt::format("its weights {} and offsets {} don't fit its input {} in {} groups",
                             weights.to_string(), offset.to_string(), x.to_string(), group));
  }
  const std::int64_t taps = weights[1] * weights[2] * weights[3];
  const std::int64_t places = offset[2] * offset[3];
  const Value columns =
      node.reshape(deformed_columns(node, weights), Shape{x[0], group, taps, places});
  const Value factors = node.reshape(node.in(1), Shape{group, weights[0] / group, taps});
  const Value sums = node.emit("matmul", {factors, columns});
  Value y = node.reshape(sums, Shape{x[0], weights[0], offset[2], offset[3]});
  if (node.has(3)) y = node.emit("add", {y, node.reshape(node.in(3), Shape{weights[0], 1, 1})});
  node.set(0, y);
}

constexpr OnnxOp kRows[] = {
    {.name = "AffineGrid", .since = 20, .handler = affine_grid, .values_needed = 0b10},
    {.name = "DeformConv", .since = 19, .handler = deform_conv},
    {.name = "Det", .since = 11, .handler = direct, .op = "determinant"},
    {.name = "GridSample", .since = 16, .handler = grid_sample},
    {.name = "MaxRoiPool", .handler = max_roi_pool},
    {.name = "RoiAlign", .since = 10, .handler = roi_align},
};

}  // namespace

std::span<const OnnxOp> sampling_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
