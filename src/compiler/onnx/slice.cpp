#include <algorithm>
#include <numeric>

#include <fmt/format.h>

#include "compiler/onnx/node.hpp"

/// Slice and Pad: operators that cut and grow along some axes.
namespace tilemesh::onnx_importer {
namespace {

using Integers = std::vector<std::int64_t>;

Integers all_axes(std::size_t count) {
  Integers axes(count);
  std::iota(axes.begin(), axes.end(), 0);
  return axes;
}

/// One axis of a slice, clamped to its size as ONNX says; a negative step may end at -1, which
/// stands for "before the first".
struct Cut {
  std::int64_t start = 0;
  std::int64_t end = 0;
  std::int64_t step = 1;
};

Cut clamp_cut(std::int64_t start, std::int64_t end, std::int64_t step, std::int64_t size) {
  if (size == 0) return {0, 0, 1};
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? size : size - 1;
  const auto from_front = [size](std::int64_t at) {
    return at < 0 ? at + size : at;
  };
  return {std::clamp(from_front(start), std::max<std::int64_t>(low, 0), high),
          std::clamp(from_front(end), low, high), std::clamp(step, -size, size)};
}

void slice(Node& node) {
  const bool inputs = node.version() >= 10;
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  const Integers starts =
      inputs ? node.known_integers(1, "starts") : node.required_integers("starts");
  const Integers ends = inputs ? node.known_integers(2, "ends") : node.required_integers("ends");
  Integers axes = all_axes(starts.size());
  if (inputs ? node.has(3) : node.has_attribute("axes")) {
    axes = inputs ? node.known_integers(3, "axes") : node.integers("axes");
  }
  Integers steps(starts.size(), 1);
  if (inputs && node.has(4)) steps = node.known_integers(4, "steps");
  if (starts.size() != ends.size() || starts.size() != axes.size() ||
      starts.size() != steps.size()) {
    node.invalid(fmt::format("it has {} starts, {} ends, {} axes and {} steps", starts.size(),
                             ends.size(), axes.size(), steps.size()));
  }
  axes = node.normal_axes(axes, from.rank());
  Attributes attributes;
  Integers cut_starts, cut_ends, cut_steps;
  bool whole = true;
  for (std::size_t i = 0; i < axes.size(); ++i) {
    if (steps[i] == 0) node.invalid("it has a step of 0");
    const std::int64_t size = from[static_cast<int>(axes[i])];
    const Cut cut = clamp_cut(starts[i], ends[i], steps[i], size);
    cut_starts.push_back(cut.start);
    cut_ends.push_back(cut.end);
    cut_steps.push_back(cut.step);
    whole = whole && cut.start == 0 && cut.end == size && cut.step == 1;
  }
  if (whole) return node.set(0, x);
  node.set(0,
           node.emit(
               "slice", {x},
               {{"starts", cut_starts}, {"ends", cut_ends}, {"axes", axes}, {"steps", cut_steps}}));
}

// The pads of all dims, begins first, from those of some axes.
Integers spread_pads(const Node& node, const Integers& pads, const Integers& axes, int rank) {
  if (pads.size() != 2 * axes.size()) {
    node.invalid(fmt::format("it has {} pads for {} axes", pads.size(), axes.size()));
  }
  Integers all(2 * static_cast<std::size_t>(rank), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const auto axis = static_cast<std::size_t>(axes[i]);
    all[axis] = pads[i];
    all[axis + static_cast<std::size_t>(rank)] = pads[i + axes.size()];
  }
  return all;
}

// Pads below 0 cut first: what is repeated or mirrored is what is left.
Value cut_by_pads(Node& node, Value x, Integers& pads) {
  const Shape from = node.shape(x);
  const auto rank = static_cast<std::size_t>(from.rank());
  Integers starts(rank, 0);
  Integers ends(from.begin(), from.end());
  for (std::size_t d = 0; d < rank; ++d) {
    const std::int64_t size = ends[d];
    starts[d] = -std::clamp<std::int64_t>(pads[d], -size, 0);
    ends[d] = size + std::clamp<std::int64_t>(pads[rank + d], -size, 0);
    if (starts[d] > ends[d]) {
      node.invalid(fmt::format("pads of {} and {} cut more than dim {} of {} has", pads[d],
                               pads[rank + d], d, from.to_string()));
    }
  }
  for (std::int64_t& pad : pads)
    pad = std::max<std::int64_t>(pad, 0);
  return node.emit("slice", {x},
                   {{"starts", std::move(starts)},
                    {"ends", std::move(ends)},
                    {"axes", all_axes(rank)},
                    {"steps", Integers(rank, 1)}});
}

void pad(Node& node) {
  const bool inputs = node.version() >= 11;
  Value x = node.in(0);
  const int rank = node.rank(x);
  const Integers pads = inputs ? node.known_integers(1, "pads") : node.required_integers("pads");
  Integers axes = all_axes(static_cast<std::size_t>(rank));
  if (inputs && node.has(3)) axes = node.normal_axes(node.known_integers(3, "axes"), rank);
  Integers all = spread_pads(node, pads, axes, rank);
  if (std::all_of(all.begin(), all.end(), [](auto n) { return n == 0; })) return node.set(0, x);
  const std::string mode = node.text("mode", "constant");
  if (mode != "constant" && std::any_of(all.begin(), all.end(), [](auto n) { return n < 0; })) {
    x = cut_by_pads(node, x, all);
  }
  std::vector<Value> operands = {x};
  if (mode == "constant" && inputs && node.has(2)) {
    operands.push_back(node.reshape(node.in(2), {}));
  } else if (mode == "constant" && !inputs && node.number("value", 0) != 0) {
    operands.push_back(node.scalar(node.dtype(x), node.number("value", 0)));
  }
  node.set(0, node.emit("pad", operands, {{"pads", all}, {"mode", mode}}));
}

// Cuts what is larger than wanted and fills up what is smaller, the odd element at the end.
void center_crop_pad(Node& node) {
  const Value x = node.in(0);
  const Shape from = node.shape(x);
  const Integers wanted = node.known_integers(1, "shape");
  Integers axes = all_axes(static_cast<std::size_t>(from.rank()));
  if (node.has_attribute("axes")) axes = node.normal_axes(node.integers("axes"), from.rank());
  if (wanted.size() != axes.size()) {
    node.invalid(fmt::format("it has {} sizes for {} axes", wanted.size(), axes.size()));
  }
  Integers starts, ends, pads(2 * axes.size(), 0);
  for (std::size_t i = 0; i < axes.size(); ++i) {
    const std::int64_t size = from[static_cast<int>(axes[i])];
    if (wanted[i] < 0) node.invalid(fmt::format("it has a size of {}", wanted[i]));
    const std::int64_t kept = std::min(size, wanted[i]);
    starts.push_back((size - kept) / 2);
    ends.push_back(starts[i] + kept);
    pads[i] = (wanted[i] - kept) / 2;
    pads[i + axes.size()] = wanted[i] - kept - pads[i];
  }
  const Integers steps(axes.size(), 1);
  const Value cut = node.emit(
      "slice", {x}, {{"starts", starts}, {"ends", ends}, {"axes", axes}, {"steps", steps}});
  node.set(0, node.emit("pad", {cut},
                        {{"pads", spread_pads(node, pads, axes, from.rank())},
                         {"mode", std::string("constant")}}));
}

constexpr OnnxOp kRows[] = {
    {.name = "CenterCropPad", .since = 18, .handler = center_crop_pad, .values_needed = 0b10},
    {.name = "Pad", .since = 2, .handler = pad, .values_needed = 0b1010},
    {.name = "Slice", .handler = slice, .values_needed = 0b11110},
};

}  // namespace

std::span<const OnnxOp> slice_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
