#include <algorithm>

#include <fmt/format.h>

#include "compiler/onnx/importer.hpp"

/// Dims of which only the first elements are there. Shapes are static, so an op whose number of
/// results depends on the data gives room for the most, and a count (src/ops/bounded.cpp). What
/// follows from its results may read the room behind them only into more room: that is what
/// placement factors say of a dim, since the parts of a cut operand give the parts of the result.
/// Everything else is refused.
namespace tilemesh::onnx_importer {
namespace {

[[noreturn]] void refuse(const Graph& graph, Value value, int dim, const std::string& why) {
  throw Error(ErrorCode::unsupported,
              fmt::format("it {} dim {} of \"{}\", whose size depends on the data (up to {}): end "
                          "the model before it, or fix by --value the input that decides the size",
                          why, dim, graph[value].name, graph[value].type.shape[dim]));
}

/// The dims of the outputs that go with a factor; none if one of them lacks it.
std::vector<int> dims_with(const Factors& factors, int factor) {
  std::vector<int> dims;
  for (const std::vector<int>& output : factors.outputs) {
    const auto at = std::find(output.begin(), output.end(), factor);
    if (factor == Factors::kNone || at == output.end()) return {};
    dims.push_back(static_cast<int>(at - output.begin()));
  }
  return dims;
}

}  // namespace

const std::vector<CountedDim>& Importer::counted_dims(Value value) const {
  static const std::vector<CountedDim> kNone;
  const auto found = counted_.find(static_cast<std::uint32_t>(value));
  return found == counted_.end() ? kNone : found->second;
}

void Importer::set_counted(Value value, int dim, Value count) {
  std::vector<CountedDim>& dims = counted_[static_cast<std::uint32_t>(value)];
  const bool there = std::any_of(dims.begin(), dims.end(),
                                 [&](const CountedDim& known) { return known.dim == dim; });
  if (!there) dims.push_back({dim, count});
}

void Importer::require_whole(Value value, const std::string& why) const {
  for (const CountedDim& counted : counted_dims(value))
    refuse(graph_, value, counted.dim, why);
}

// Every operand that has a counted dim's factor has to have the same count there.
void Importer::check_partners(const OpCall& call, const Factors& factors, const GraphNode& node,
                              int factor, Value count) const {
  for (std::size_t i = 0; i < factors.inputs.size() && i < node.inputs.size(); ++i) {
    if (!call.inputs[i].present) continue;
    const std::vector<CountedDim>& own = counted_dims(node.inputs[i]);
    for (std::size_t d = 0; d < factors.inputs[i].size(); ++d) {
      if (factors.inputs[i][d] != factor) continue;
      const bool same = std::any_of(own.begin(), own.end(), [&](const CountedDim& counted) {
        return std::cmp_equal(counted.dim, d) && counted.count == count;
      });
      if (!same) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("it combines dim {} of \"{}\" with a dim whose size depends on "
                                "other data",
                                d, graph_[node.inputs[i]].name));
      }
    }
  }
}

void Importer::spread_counts(const GraphNode& node) {
  const bool any = std::any_of(node.inputs.begin(), node.inputs.end(),
                               [&](Value input) { return !counted_dims(input).empty(); });
  if (!any) return;
  const OpCall call = graph_.call_of(node);
  const Factors factors = factors_of(call);
  for (std::size_t i = 0; i < node.inputs.size(); ++i) {
    for (const CountedDim& counted : std::vector<CountedDim>(counted_dims(node.inputs[i]))) {
      const int factor = factors.inputs[i][static_cast<std::size_t>(counted.dim)];
      const std::vector<int> dims = dims_with(factors, factor);
      const std::int64_t size = call.inputs[i].shape[counted.dim];
      if (dims.empty()) refuse(graph_, node.inputs[i], counted.dim, "works across");
      check_partners(call, factors, node, factor, counted.count);
      for (std::size_t o = 0; o < dims.size(); ++o) {
        if (call.outputs[o].shape[dims[o]] != size) {
          refuse(graph_, node.inputs[i], counted.dim, "splits or merges");
        }
        set_counted(node.outputs[o], dims[o], counted.count);
      }
    }
  }
}

// A handler may make an output of an operand's shape alone (a mask): it would have the size of the
// room, and no count.
void Importer::require_counts(const Node& node) const {
  if (node.row().name == "Shape") return;  // it gives the count
  for (const Value input : node.inputs()) {
    const std::vector<CountedDim>& dims = counted_dims(input);
    for (int i = 0; i < node.output_count() && !dims.empty(); ++i) {
      const Value output = node.outputs()[static_cast<std::size_t>(i)];
      if (node.wants(i) && counted_dims(output).empty()) {
        refuse(graph_, input, dims[0].dim, "makes something of the shape of");
      }
    }
  }
}

void Importer::add_count_outputs() {
  const std::size_t own = graph_.outputs.size();
  const auto taken = [&](const std::string& name) {
    return std::any_of(graph_.outputs.begin(), graph_.outputs.end(),
                       [&](const GraphOutput& output) { return output.name == name; });
  };
  for (std::size_t i = 0; i < own; ++i) {
    const std::vector<CountedDim>& dims = counted_dims(graph_.outputs[i].value);
    for (const CountedDim& counted : dims) {
      GraphOutput output;
      output.name = graph_.outputs[i].name + ".count";
      if (dims.size() > 1) output.name += fmt::format(".{}", counted.dim);
      output.value = counted.count;
      if (taken(output.name)) {
        throw Error(ErrorCode::unsupported,
                    fmt::format("the model has an output \"{}\", which is the name of the count of "
                                "another: rename it",
                                output.name));
      }
      graph_.outputs.push_back(std::move(output));
    }
  }
}

}  // namespace tilemesh::onnx_importer
