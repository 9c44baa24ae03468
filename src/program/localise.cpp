#include "tilemesh/program/localise.hpp"

#include <algorithm>
#include <utility>
#include <vector>

namespace tilemesh {
namespace {

// Only dims that are kept whole are ever cut: they end where the shard does.
void localise_slice(OpCall& call) {
  const Shape& in = call.inputs[0].shape;
  const std::vector<std::int64_t>& starts = call.attributes.integers("starts");
  const std::vector<std::int64_t>& axes = call.attributes.integers("axes");
  const std::vector<std::int64_t>& steps = call.attributes.integers("steps");
  std::vector<std::int64_t> ends = call.attributes.integers("ends");
  for (std::size_t k = 0; k < ends.size(); ++k) {
    if (starts[k] == 0 && steps[k] == 1) {
      ends[k] = std::min(ends[k], in[static_cast<int>(axes[k])]);
    }
  }
  call.attributes.set("ends", std::move(ends));
}

}  // namespace

void localise(OpCall& call) {
  const std::string_view op = call.def->name;
  if (op == "slice") localise_slice(call);
  const bool states_shape = op == "reshape" || op == "expand" || op == "resize";
  if (states_shape && !call.outputs.empty()) {
    const Shape& shape = call.outputs[0].shape;
    call.attributes.set(op == "resize" ? "sizes" : "shape",
                        std::vector<std::int64_t>(shape.begin(), shape.end()));
  }
}

void type_absent_outputs(OpCall& call) {
  if (std::ranges::all_of(call.outputs, &OperandType::present)) return;
  OpCall inferred = call;
  infer_outputs(inferred);
  for (std::size_t i = 0; i < std::min(call.outputs.size(), inferred.outputs.size()); ++i) {
    if (!call.outputs[i].present) call.outputs[i] = inferred.outputs[i];
  }
}

}  // namespace tilemesh
