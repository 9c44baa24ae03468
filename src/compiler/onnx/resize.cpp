#include <algorithm>
#include <cmath>
#include <numeric>

#include <fmt/format.h>

#include "compiler/onnx/node.hpp"

/// Resize and Upsample through their versions.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;
using Numbers = std::vector<double>;

/// A resize with nothing left open, one entry per dim.
struct Plan {
  Numbers scales;
  Integers sizes;
  Numbers roi;  ///< starts, then ends; of tf_crop_and_resize
};

std::int64_t scaled_size(const Node& node, std::int64_t size, double scale) {
  // ONNX keeps scales as f32 and multiplies in that: 0.6f * 5 must give 3.
  const auto scaled = static_cast<double>(static_cast<float>(size) * static_cast<float>(scale));
  if (!(scale > 0) || !(scaled < 9e15)) node.invalid(fmt::format("it has a scale of {}", scale));
  return static_cast<std::int64_t>(std::floor(scaled));
}

Plan plan_scales(const Node& node, const Shape& from, const Numbers& scales, const Integers& axes) {
  if (scales.size() != axes.size()) {
    node.invalid(fmt::format("it has {} scales for {} axes", scales.size(), axes.size()));
  }
  Plan plan{Numbers(static_cast<std::size_t>(from.rank()), 1.0), {from.begin(), from.end()}, {}};
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    plan.scales[axis] = scales[i];
    plan.sizes[axis] = scaled_size(node, plan.sizes[axis], scales[i]);
  }
  return plan;
}

Plan plan_sizes(const Node& node, const Shape& from, Integers sizes, const Integers& axes) {
  if (sizes.size() != axes.size()) {
    node.invalid(fmt::format("it has {} sizes for {} axes", sizes.size(), axes.size()));
  }
  Plan plan{Numbers(static_cast<std::size_t>(from.rank()), 1.0), {from.begin(), from.end()}, {}};
  const auto scale_of = [&](std::size_t i) {
    const std::int64_t size = from[static_cast<int>(axes[i])];
    return size == 0 ? 1.0 : static_cast<double>(sizes[i]) / static_cast<double>(size);
  };
  const std::string policy = node.text("keep_aspect_ratio_policy", "stretch");
  if (policy != "stretch" && !axes.empty()) {
    double scale = scale_of(0);
    for (std::size_t i = 1; i < axes.size(); ++i) {
      scale = policy == "not_larger" ? std::min(scale, scale_of(i)) : std::max(scale, scale_of(i));
    }
    for (std::size_t i = 0; i < axes.size(); ++i) {
      const auto size = static_cast<double>(from[static_cast<int>(axes[i])]);
      sizes[i] = static_cast<std::int64_t>(std::floor(scale * size + 0.5));
      plan.scales[static_cast<std::size_t>(axes[i])] = scale;
    }
  }
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    if (sizes[i] < 0) node.invalid(fmt::format("it has a size of {}", sizes[i]));
    if (policy == "stretch") plan.scales[axis] = scale_of(i);
    plan.sizes[axis] = sizes[i];
  }
  return plan;
}

void add_roi(const Node& node, const Numbers& roi, const Integers& axes, Plan& plan) {
  if (roi.size() != 2 * axes.size()) {
    node.invalid(fmt::format("its roi has {} numbers for {} axes", roi.size(), axes.size()));
  }
  const std::size_t rank = plan.sizes.size();
  plan.roi.assign(2 * rank, 0.0);
  std::fill(plan.roi.begin() + static_cast<std::ptrdiff_t>(rank), plan.roi.end(), 1.0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    plan.roi[static_cast<std::size_t>(axes[i])] = roi[i];
    plan.roi[rank + static_cast<std::size_t>(axes[i])] = roi[axes.size() + i];
  }
}

void emit_resize(Node& node, const Plan& plan, Attributes attributes) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  const bool same =
      std::equal(from.begin(), from.end(), plan.sizes.begin(), plan.sizes.end()) &&
      std::all_of(plan.scales.begin(), plan.scales.end(), [](double scale) { return scale == 1; });
  if (same && plan.roi.empty()) return node.set(0, x);
  attributes.set("scales", plan.scales);
  attributes.set("sizes", plan.sizes);
  if (!plan.roi.empty()) attributes.set("roi", plan.roi);
  node.set(0, node.emit("resize", {x}, std::move(attributes)));
}

// Upsample 7 and 9, Resize 10: outputs lie at x / scale. The nearest is the one before where a dim
// grows, the one behind where it shrinks, which Upsample may not do.
void old_resize(Node& node) {
  const Value x = node.in(0);
  const bool attribute = node.row().name == "Upsample" && node.version() < 9;
  if (attribute && !node.has_attribute("scales")) node.required_integers("scales");
  const Numbers scales = attribute ? node.numbers("scales") : node.known_numbers(1, "scales");
  for (const double scale : scales) {
    if (node.row().name == "Upsample" && scale < 1) {
      node.invalid(fmt::format("it has a scale of {}, 1 or more is wanted: use Resize", scale));
    }
  }
  Integers axes(static_cast<std::size_t>(node.rank(x)));
  std::iota(axes.begin(), axes.end(), 0);
  std::string mode = node.text("mode", "nearest");
  if (mode == "bilinear" || mode == "trilinear") mode = "linear";
  emit_resize(
      node, plan_scales(node, node.shape(x), scales, axes),
      {{"mode", mode}, {"coordinate", "asymmetric"}, {"nearest_mode", "floor_up_ceil_down"}});
}

void resize(Node& node) {
  if (node.version() < 11) return old_resize(node);
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  Integers axes(static_cast<std::size_t>(from.rank()));
  std::iota(axes.begin(), axes.end(), 0);
  if (node.has_attribute("axes")) axes = node.normal_axes(node.integers("axes"), from.rank());
  // An empty tensor stands for one that isn't given.
  const bool by_size = node.has(3) && node.shape(node.in(3)).element_count() > 0;
  if (!by_size && !node.has(2)) node.invalid("it has neither scales nor sizes");
  Plan plan = by_size ? plan_sizes(node, from, node.known_integers(3, "sizes"), axes)
                      : plan_scales(node, from, node.known_numbers(2, "scales"), axes);
  const std::string coordinate = node.text("coordinate_transformation_mode", "half_pixel");
  if (coordinate == "tf_crop_and_resize") add_roi(node, node.known_numbers(1, "roi"), axes, plan);
  const std::string mode = node.text("mode", "nearest");
  emit_resize(node, plan,
              {{"mode", mode},
               {"coordinate", coordinate},
               {"nearest_mode", node.text("nearest_mode", "round_prefer_floor")},
               {"cubic_coeff_a", node.number("cubic_coeff_a", -0.75)},
               {"exclude_outside", node.integer("exclude_outside", 0)},
               {"extrapolation_value", node.number("extrapolation_value", 0)},
               {"antialias", node.integer("antialias", 0)}});
}

constexpr OnnxOp kRows[] = {
    {.name = "Resize", .since = 10, .handler = resize, .values_needed = 0b1110},
    {.name = "Upsample", .since = 7, .handler = old_resize, .values_needed = 0b10},
};

}  // namespace

std::span<const OnnxOp> resize_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
