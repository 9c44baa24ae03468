#include "tilemesh/ops/derived.hpp"

namespace tilemesh::ops {
namespace {

std::int64_t positive_mod(std::int64_t i, std::int64_t size) {
  const std::int64_t rest = i % size;
  return rest < 0 ? rest + size : rest;
}

}  // namespace

std::int64_t Cut::size() const {
  if (step > 0) return end <= start ? 0 : (end - start - 1) / step + 1;
  return end >= start ? 0 : (start - end - 1) / -step + 1;
}

std::vector<Cut> cuts_of(const OpCall& call) {
  const auto& starts = call.attributes.integers("starts");
  const auto& ends = call.attributes.integers("ends");
  const auto& axes = call.attributes.integers("axes");
  const auto& steps = call.attributes.integers("steps");
  std::vector<Cut> cuts;
  for (const std::int64_t size : call.inputs[0].shape) {
    cuts.push_back({.start = 0, .end = size, .step = 1});
  }
  for (std::size_t k = 0; k < starts.size(); ++k) {
    cuts[static_cast<std::size_t>(axes[k])] = {
        .start = starts[k], .end = ends[k], .step = steps[k]};
  }
  return cuts;
}

std::vector<bool> reduced_dims(const OpCall& call) {
  std::vector<bool> reduced(static_cast<std::size_t>(call.inputs[0].shape.rank()));
  for (const std::int64_t axis : call.attributes.integers("axes")) {
    reduced[static_cast<std::size_t>(axis)] = true;
  }
  return reduced;
}

std::int64_t padded_from(std::string_view mode, std::int64_t i, std::int64_t size) {
  if (i >= 0 && i < size) return i;
  if (mode == "constant") return -1;
  if (mode == "edge") return i < 0 ? 0 : size - 1;
  if (mode == "wrap") return positive_mod(i, size);
  if (size == 1) return 0;  // reflect
  const std::int64_t around_edges = positive_mod(i, 2 * (size - 1));
  return around_edges < size ? around_edges : 2 * (size - 1) - around_edges;
}

}  // namespace tilemesh::ops
