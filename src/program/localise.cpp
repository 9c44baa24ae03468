#include "tilemesh/program/localise.hpp"

#include <utility>
#include <vector>

namespace tilemesh {
namespace {

// Only dims that are kept whole are ever cut: they end where the shard does.
void localise_slice(OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const std::vector<std::int64_t> starts = call.attributes.integers("starts");
  std::vector<std::int64_t> ends = call.attributes.integers("ends");
  const std::vector<std::int64_t> axes = call.attributes.integers_or("axes", {});
  const std::vector<std::int64_t> steps =
      call.attributes.integers_or("steps", std::vector<std::int64_t>(starts.size(), 1));
  bool changed = false;
  for (std::size_t k = 0; k < ends.size(); ++k) {
    const auto at = static_cast<std::int64_t>(k);
    const std::int64_t axis = k < axes.size() ? axes[k] : at;
    const std::int64_t dim = axis < 0 ? axis + in.rank() : axis;
    const bool plain = k < starts.size() && k < steps.size() && starts[k] == 0 && steps[k] == 1;
    if (plain && dim >= 0 && dim < in.rank() && ends[k] > in[static_cast<int>(dim)]) {
      ends[k] = in[static_cast<int>(dim)];
      changed = true;
    }
  }
  if (changed) call.attributes.set("ends", std::move(ends));
}

}  // namespace

void localise(OpCall& call) {
  const std::string_view op = call.def->name;
  if (op == "slice" && !call.inputs.empty()) localise_slice(call);
  const std::string_view name = op == "resize" ? "sizes" : "shape";
  const bool states_shape = op == "reshape" || op == "expand" || op == "resize";
  if (states_shape && call.attributes.has(name) && !call.outputs.empty()) {
    const Shape& shape = call.outputs[0].shape;
    call.attributes.set(name, std::vector<std::int64_t>(shape.begin(), shape.end()));
  }
}

}  // namespace tilemesh
