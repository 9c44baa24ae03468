#include <algorithm>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/interpret.hpp"
#include "compiler/onnx/importer.hpp"

/// The half of the Importer that writes into the graph.
namespace tilemesh::onnx_importer {
namespace {

// A result is always worth computing while it is small; a large one only if it isn't much larger
// than what it is made from.
constexpr std::int64_t kSmallBytes = std::int64_t{1} << 20;
constexpr std::int64_t kFewBytes = 256;
// What all constants may take that aren't in the model itself, so that a hostile one can't fill the
// memory.
constexpr std::int64_t kMaxMadeBytes = std::int64_t{1} << 28;
// The references of products and windows are slow: large ones are left to the run.
constexpr double kMaxProductSteps = 1 << 26;
constexpr std::string_view kWindows[] = {"average_pool", "conv", "conv_transpose", "einsum", "gru",
                                         "lrn",          "lstm", "max_pool",       "rnn"};

std::int64_t bytes_of(const OperandType& type) {
  return type.present ? checked_mul(type.shape.element_count(), size_of(type.dtype)) : 0;
}

}  // namespace

Value Importer::add_constant(ConstantData data) {
  made_bytes_ += static_cast<std::int64_t>(data.bytes->size());
  if (made_bytes_ > kMaxMadeBytes + 4 * model_bytes_) {
    throw Error(
        ErrorCode::unsupported,
        fmt::format("the constants that the model computes take over {} bytes", kMaxMadeBytes));
  }
  return graph_.add_constant(node_name_, std::move(data));
}

std::vector<Value> Importer::emit(std::string_view op, std::vector<Value> inputs,
                                  Attributes attributes, int output_count) {
  std::ranges::for_each(inputs, require_tensor);
  GraphNode node;
  node.def = &get_op(op);
  node.attributes = std::move(attributes);
  node.inputs = std::move(inputs);
  if (can_fold(node)) {
    std::vector<Value> folded = fold(node, output_count);
    if (!folded.empty()) return folded;
  }
  const std::vector<Value> sources = node.inputs;
  std::vector<Value> outputs = graph_.append(*block_, std::move(node), output_count);
  block_->nodes.back().name = node_name_;
  for (const Value output : outputs) {
    if (output == kNoValue) continue;
    graph_[output].name = node_name_;
    sources_[static_cast<std::uint32_t>(output)] = sources;
  }
  spread_counts(block_->nodes.back());
  return outputs;
}

bool Importer::can_fold(const GraphNode& node) const {
  const bool known = std::all_of(node.inputs.begin(), node.inputs.end(), [&](Value input) {
    return input == kNoValue || graph_.is_constant(input);
  });
  const std::string_view op = node.def->name;
  return known && !node.inputs.empty() &&
         std::find(std::begin(kWindows), std::end(kWindows), op) == std::end(kWindows);
}

bool Importer::is_worth_folding(const OpCall& call) const {
  std::int64_t in = 0;
  std::int64_t out = 0;
  for (const OperandType& type : call.inputs)
    in = checked_add(in, bytes_of(type));
  for (const OperandType& type : call.outputs)
    out = checked_add(out, bytes_of(type));
  const double steps = static_cast<double>(in) * static_cast<double>(out);
  if (call.def->name == "matmul" && steps > kMaxProductSteps) return false;
  // Quantized weights stay so in the graph; passes decide what becomes of them.
  if (call.def->name == "dequantize" && out > kFewBytes) return false;
  return out <= kSmallBytes || (out / 2 <= in && made_bytes_ + out <= kMaxMadeBytes);
}

// Computes a node on constants; nothing if the result had better be made at run time.
std::vector<Value> Importer::fold(const GraphNode& node, int output_count) {
  OpCall call = graph_.call_of(node);
  call.outputs.resize(static_cast<std::size_t>(output_count));
  infer_outputs(call);
  if (!is_worth_folding(call)) return {};
  if (node.def->is_view) {
    ConstantData data = *graph_[node.inputs[0]].constant;
    data.shape = call.outputs[0].shape;
    return {graph_.add_constant(node_name_, std::move(data))};  // shares the bytes
  }
  std::vector<const ConstantData*> inputs;
  for (const Value input : node.inputs)
    inputs.push_back(input == kNoValue ? nullptr : graph_[input].constant.get());
  std::vector<ConstantData> results;
  try {
    results = evaluate(call, inputs);
  } catch (const Error& error) {  // an index outside, say
    if (error.code() != ErrorCode::kernel_failed) throw;
    throw Error(ErrorCode::invalid_argument, error.what());
  }
  std::vector<Value> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.push_back(call.outputs[i].present ? add_constant(std::move(results[i])) : kNoValue);
  }
  return outputs;
}

/// One side of a branch, once imported.
struct Importer::Side {
  std::shared_ptr<GraphBlock> block;
  bool poisoned = false;
  bool fails = false;
};

Importer::Side Importer::import_side(const onnx::GraphProto& graph, Scope& outer,
                                     int output_count) {
  Side side{std::make_shared<GraphBlock>()};
  GraphBlock* const outer_block = std::exchange(block_, side.block.get());
  const std::string outer_name = node_name_;
  try {
    side.block->results = inline_graph(graph, outer);
    const std::vector<Value>& results = side.block->results;
    if (std::any_of(results.begin(), results.end(), is_list)) {
      throw Error(ErrorCode::unsupported,
                  "a branch on a condition that only the run knows gives a sequence: fix the input "
                  "that it hangs on with --value");
    }
    side.poisoned = std::find(results.begin(), results.end(), kPoison) != results.end();
    for (const Value result : results)
      require_whole(result, "gives, as a branch's result,");
    if (std::cmp_not_equal(results.size(), output_count)) {
      throw Error(ErrorCode::invalid_file,
                  fmt::format("a branch gives {} results, its node has {} outputs", results.size(),
                              output_count));
    }
  } catch (const Error& error) {
    block_ = outer_block;
    // A side that can't work with these shapes is an error only if it is taken.
    if (error.code() != ErrorCode::invalid_argument) throw;
    GraphNode fail;
    fail.kind = GraphNode::Kind::fail;
    fail.name = outer_name;
    fail.message = error.what();
    side.block->nodes.clear();
    side.block->results.clear();
    side.block->nodes.push_back(std::move(fail));
    side.fails = true;
  }
  block_ = outer_block;
  node_name_ = outer_name;
  return side;
}

std::vector<Value> Importer::branch(Value condition, const onnx::GraphProto& then_graph,
                                    const onnx::GraphProto& else_graph, Scope& outer,
                                    int output_count) {
  const Side then_side = import_side(then_graph, outer, output_count);
  const Side else_side = import_side(else_graph, outer, output_count);
  if (then_side.poisoned || else_side.poisoned) {
    return std::vector<Value>(static_cast<std::size_t>(output_count), kPoison);
  }
  if (then_side.fails && else_side.fails) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("neither branch works: {}; {}", then_side.block->nodes[0].message,
                            else_side.block->nodes[0].message));
  }
  GraphNode node;
  node.kind = GraphNode::Kind::branch;
  node.name = node_name_;
  node.inputs = {condition};
  node.blocks = {then_side.block, else_side.block};
  std::vector<Value> sources = {condition};
  for (const Side* side : {&then_side, &else_side})
    sources.insert(sources.end(), side->block->results.begin(), side->block->results.end());
  const std::vector<Value> outputs = graph_.append(*block_, std::move(node), output_count);
  for (const Value output : outputs)
    sources_[static_cast<std::uint32_t>(output)] = sources;
  return outputs;
}

std::vector<Value> Importer::loop(const LoopStart& start, const LoopBody& body) {
  GraphNode node;
  node.kind = GraphNode::Kind::loop;
  node.name = node_name_;
  node.limit = start.limit;
  node.blocks = {std::make_shared<GraphBlock>()};
  GraphBlock& block = *node.blocks[0];
  const Value zero = add_constant(make_constant<std::int64_t>(Shape{}, {0}));
  node.inputs = {start.condition, start.trips, zero};
  const auto add_parameter = [&](Value initial) {
    node.inputs.push_back(initial);
    block.parameters.push_back(graph_.add_value(node_name_, graph_[initial].type));
    return block.parameters.back();
  };
  block.parameters.push_back(graph_.add_value(node_name_, graph_[zero].type));
  std::vector<Value> carried;
  for (const Value initial : start.initial) {
    require_whole(initial, "carries into a loop");
    carried.push_back(add_parameter(initial));
  }

  GraphBlock* const outer = std::exchange(block_, &block);
  try {
    const LoopStep step = body(block.parameters[0], carried);
    block.results = {step.condition};
    block.results.insert(block.results.end(), step.next.begin(), step.next.end());
    for (const LoopStep::More& more : step.more)
      block.results.push_back(more.next(add_parameter(more.initial)));
  } catch (...) {
    block_ = outer;
    throw;
  }
  block_ = outer;
  if (std::find(block.results.begin(), block.results.end(), kPoison) != block.results.end()) {
    return std::vector<Value>(block.results.size(), kPoison);
  }
  for (const Value result : block.results)
    require_whole(result, "carries through a loop");
  std::vector<Value> sources = node.inputs;
  sources.insert(sources.end(), block.results.begin(), block.results.end());
  const std::vector<Value> outputs = graph_.append(*block_, std::move(node));
  for (const Value output : outputs)
    sources_[static_cast<std::uint32_t>(output)] = sources;
  return outputs;
}

// Nodes that were appended meanwhile stay, and are found to be dead.
std::optional<std::vector<Value>> Importer::attempt(
    const std::function<std::vector<Value>()>& attempt) {
  const Problems problems = problems_;
  const std::string name = node_name_;
  try {
    std::vector<Value> results = attempt();
    const bool poisoned = std::find(results.begin(), results.end(), kPoison) != results.end();
    if (!poisoned) return results;
  } catch (const NeedsValue&) {
  } catch (const Error& error) {
    if (error.code() != ErrorCode::unsupported && error.code() != ErrorCode::invalid_argument) {
      throw;
    }
  }
  problems_ = problems;
  node_name_ = name;
  return std::nullopt;
}

void Importer::note_unknown(const onnx::NodeProto& node, const Versions& versions) {
  const bool ours = is_default_domain(node.domain());
  const OnnxOp* row = find_onnx_op(node.domain(), node.op_type());
  const std::int64_t version = version_of(versions, node.domain());
  const std::string op = ours ? node.op_type() : node.domain() + "." + node.op_type();
  const std::string name =
      node.name().empty() && node.output_size() > 0 ? node.output(0) : node.name();
  if (row == nullptr && find_function(node) == nullptr) {
    std::string reason(reason_for_absence(node.domain(), node.op_type()));
    if (reason.empty()) {
      const std::string close = close_onnx_ops(node.domain(), node.op_type());
      reason = close.empty() ? "" : close.substr(2);
    }
    problems_.add_unknown(op, name, std::move(reason));
  } else if (row != nullptr && row->since > version) {
    problems_.add_unknown(
        op, name, fmt::format("supported from opset {}, the model has {}", row->since, version));
  }
  for (const onnx::AttributeProto& attribute : node.attribute()) {
    if (!attribute.has_g()) continue;
    for (const onnx::NodeProto& inner : attribute.g().node())
      note_unknown(inner, versions);
  }
}

void Importer::note_needed(const NeedsValue& need, const std::string& user) {
  std::vector<Value> open = {need.value};
  std::unordered_set<std::uint32_t> seen;
  while (!open.empty()) {
    const Value value = open.back();
    open.pop_back();
    if (value == kNoValue || !seen.insert(static_cast<std::uint32_t>(value)).second) continue;
    for (const GraphInput& input : graph_.inputs) {
      if (input.value == value) problems_.add_needed(input.name, user);
    }
    const auto sources = sources_.find(static_cast<std::uint32_t>(value));
    if (sources != sources_.end()) {
      open.insert(open.end(), sources->second.begin(), sources->second.end());
    }
  }
  if (problems_.empty()) {
    problems_.add_unsupported(
        fmt::format("{} hangs on a value that is known only at run time", user));
  }
}

}  // namespace tilemesh::onnx_importer
