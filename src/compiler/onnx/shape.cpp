#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/node.hpp"

/// Operators that rearrange whole tensors.
namespace tilemesh::onnx_importer {
namespace {

Shape to_shape(const std::vector<std::int64_t>& sizes) {
  return Shape(std::span<const std::int64_t>(sizes));
}

void reshape(Node& node) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  std::vector<std::int64_t> sizes = node.known_integers(1, "shape");
  const bool allow_zero = node.integer("allowzero", 0) != 0;
  const std::string asked = fmt::format("[{}]", fmt::join(sizes, ","));
  std::int64_t open = -1;
  std::int64_t known = 1;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (sizes[i] == 0 && !allow_zero) {
      if (std::cmp_greater_equal(i, from.rank())) {
        node.invalid(fmt::format("{} copies dim {} of {}", asked, i, from.to_string()));
      }
      sizes[i] = from[static_cast<int>(i)];
    }
    if (sizes[i] < -1 || (sizes[i] == -1 && open >= 0)) {
      node.invalid(fmt::format("{} is no shape: one -1 at most", asked));
    }
    if (sizes[i] == -1) {
      open = static_cast<std::int64_t>(i);
    } else {
      known = checked_mul(known, sizes[i]);
    }
  }
  const std::int64_t count = from.element_count();
  if (open >= 0) {
    if (known == 0 || count % known != 0) {
      node.invalid(
          fmt::format("{} can't take the {} elements of {}", asked, count, from.to_string()));
    }
    sizes[static_cast<std::size_t>(open)] = count / known;
  } else if (known != count) {
    node.invalid(
        fmt::format("{} has {} elements, {} has {}", asked, known, from.to_string(), count));
  }
  node.set(0, node.reshape(x, to_shape(sizes)));
}

void flatten(Node& node) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  std::int64_t axis = node.integer("axis", 1);
  if (axis < -from.rank() || axis > from.rank()) {
    node.invalid(fmt::format("axis {} is outside [{}, {}]", axis, -from.rank(), from.rank()));
  }
  if (axis < 0) axis += from.rank();
  std::int64_t outer = 1;
  std::int64_t inner = 1;
  for (int i = 0; i < from.rank(); ++i)
    (i < axis ? outer : inner) *= from[i];
  node.set(0, node.reshape(x, {outer, inner}));
}

// Axes are an attribute before opset 13, an input from then on.
std::vector<std::int64_t> axes_of(const Node& node) {
  return node.version() < 13 ? node.integers("axes")
         : node.has(1)       ? node.known_integers(1, "axes")
                             : std::vector<std::int64_t>{};
}

void squeeze(Node& node) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  const std::vector<std::int64_t> axes = node.normal_axes(axes_of(node), from.rank());
  const bool all = node.version() < 13 ? !node.has_attribute("axes") : !node.has(1);
  std::vector<std::int64_t> sizes;
  for (int i = 0; i < from.rank(); ++i) {
    const bool named = std::find(axes.begin(), axes.end(), i) != axes.end();
    if (named && from[i] != 1) {
      node.invalid(fmt::format("dim {} of {} is {}, not 1", i, from.to_string(), from[i]));
    }
    if (!named && !(all && from[i] == 1)) sizes.push_back(from[i]);
  }
  node.set(0, node.reshape(x, to_shape(sizes)));
}

void unsqueeze(Node& node) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  const std::vector<std::int64_t> given = axes_of(node);
  if (given.size() > kMaxRank) node.unsupported(fmt::format("it adds {} dims", given.size()));
  const int rank = from.rank() + static_cast<int>(given.size());
  const std::vector<std::int64_t> axes = node.normal_axes(given, rank);
  std::vector<std::int64_t> sizes;
  auto next = from.begin();
  for (int i = 0; i < rank; ++i) {
    const bool added = std::find(axes.begin(), axes.end(), i) != axes.end();
    sizes.push_back(added ? 1 : *next++);
  }
  node.set(0, node.reshape(x, to_shape(sizes)));
}

void transpose(Node& node) {
  const Value x = node.in(0);
  std::vector<std::int64_t> order(static_cast<std::size_t>(node.rank(x)));
  std::iota(order.rbegin(), order.rend(), 0);
  order = node.normal_axes(node.integers("perm", order), node.rank(x));
  if (std::cmp_not_equal(order.size(), node.rank(x))) {
    node.invalid(fmt::format("its perm has {} dims, its input {}", order.size(), node.rank(x)));
  }
  node.set(0, node.transpose(x, order));
}

void concat(Node& node) {
  for (int i = 0; i < node.input_count(); ++i)
    static_cast<void>(node.in(i));
  const Value first = node.in(0);
  const std::int64_t axis = node.normal_axis(node.required_integer("axis"), node.rank(first));
  node.set(0,
           node.input_count() == 1 ? first : node.emit("concat", node.inputs(), {{"axis", axis}}));
}

// The sizes that nothing but the number of outputs gives: equal ones, the last one smaller where
// opset 18 allows it.
std::vector<std::int64_t> equal_parts(const Node& node, std::int64_t size) {
  const std::int64_t count =
      node.version() >= 18 ? node.integer("num_outputs", node.output_count()) : node.output_count();
  if (count != node.output_count()) {
    node.invalid(fmt::format("it has {} outputs, num_outputs is {}", node.output_count(), count));
  }
  const std::int64_t part = ceil_div(size, count);
  if (node.version() < 18 && size % count != 0) {
    node.invalid(fmt::format("{} elements don't split into {} equal parts", size, count));
  }
  std::vector<std::int64_t> sizes;
  for (std::int64_t i = 0, left = size; i < count; ++i, left -= sizes.back())
    sizes.push_back(std::min(part, left));
  return sizes;
}

void split(Node& node) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  const std::int64_t axis = node.axis(0, from.rank());
  const std::int64_t size = from[static_cast<int>(axis)];
  std::vector<std::int64_t> sizes;
  if (node.version() < 13 && node.has_attribute("split")) {
    sizes = node.integers("split");
  } else if (node.version() >= 13 && node.has(1)) {
    sizes = node.known_integers(1, "split");
  } else {
    sizes = equal_parts(node, size);
  }
  std::int64_t sum = 0;
  for (const std::int64_t part : sizes) {
    if (part < 0) node.invalid(fmt::format("a part of {} elements", part));
    sum = checked_add(sum, part);
  }
  if (sum != size || std::cmp_not_equal(sizes.size(), node.output_count())) {
    node.invalid(fmt::format("[{}] doesn't split the {} elements of axis {} into {} outputs",
                             fmt::join(sizes, ","), size, axis, node.output_count()));
  }
  if (sizes.size() == 1) return node.set(0, x);
  node.set_all(
      node.emit_many("split", {x}, {{"axis", axis}, {"sizes", sizes}}, node.output_count()));
}

void expand(Node& node) {
  const Value x = node.in(0);
  const Shape wanted = to_shape(node.known_integers(1, "shape"));
  node.set(0, node.expand(x, broadcast(node.shape(x), wanted)));
}

void tile(Node& node) {
  const Value x = node.in(0);
  std::vector<std::int64_t> repeats = node.known_integers(1, "repeats");
  if (std::cmp_not_equal(repeats.size(), node.rank(x))) {
    node.invalid(
        fmt::format("it has {} repeats for a tensor of rank {}", repeats.size(), node.rank(x)));
  }
  const bool once = std::all_of(repeats.begin(), repeats.end(), [](auto n) { return n == 1; });
  node.set(0, once ? x : node.emit("tile", {x}, {{"repeats", std::move(repeats)}}));
}

void depth_to_space(Node& node) {
  node.set(0, node.emit("depth_to_space", {node.in(0)},
                        {{"blocksize", node.required_integer("blocksize")},
                         {"mode", node.text("mode", "DCR")}}));
}

void space_to_depth(Node& node) {
  node.set(0, node.emit("space_to_depth", {node.in(0)},
                        {{"blocksize", node.required_integer("blocksize")}}));
}

constexpr unsigned kSecond = 0b10;

constexpr OnnxOp kRows[] = {
    {.name = "Concat", .since = 4, .handler = concat},
    {.name = "DepthToSpace", .handler = depth_to_space},
    {.name = "Expand", .since = 8, .handler = expand, .values_needed = kSecond},
    {.name = "Flatten", .handler = flatten},
    {.name = "Reshape", .since = 5, .handler = reshape, .values_needed = kSecond},
    {.name = "SpaceToDepth", .handler = space_to_depth},
    {.name = "Split", .since = 2, .handler = split, .values_needed = kSecond},
    {.name = "Squeeze", .handler = squeeze, .values_needed = kSecond},
    {.name = "Tile", .since = 6, .handler = tile, .values_needed = kSecond},
    {.name = "Transpose", .handler = transpose},
    {.name = "Unsqueeze", .handler = unsqueeze, .values_needed = kSecond},
};

}  // namespace

std::span<const OnnxOp> shape_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
