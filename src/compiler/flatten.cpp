#include "compiler/flatten.hpp"

#include <algorithm>

#include "tilemesh/base/math.hpp"

#include "compiler/loops.hpp"
#include "compiler/views.hpp"

namespace tilemesh {
namespace {

class Flattener {
 public:
  Flattener(const PlacedGraph& placed, ConstantPool& pool)
      : placed_(placed),
        graph_(placed.graph),
        pool_(pool),
        index_(graph_.values.size(), ProgramOp::kAbsent) {}

  FlatProgram run() {
    program().name = graph_.name;
    program().mesh = placed_.mesh;
    for (const GraphInput& input : graph_.inputs)
      add_input(input);
    add_block(graph_.body);
    for (const GraphOutput& output : graph_.outputs) {
      const std::uint32_t value = use(output.value);
      program().outputs.push_back({output.name, value, output.alias});
      flat_.output_spaces.push_back(output.space);
    }
    return std::move(flat_);
  }

 private:
  Program& program() { return flat_.program; }
  std::uint32_t& index(GraphValueId id) { return index_[static_cast<std::size_t>(id)]; }

  std::uint32_t add_value(GraphValueId id, Space space = Space::dram) {
    index(id) = add_value_like(id, space);
    return index(id);
  }

  std::uint32_t add_value_like(GraphValueId id, Space space = Space::dram) {
    const auto value = narrow<std::uint32_t>(program().values.size());
    program().values.push_back({graph_[id].name, placed_.spec(id, space), {}, graph_[id].reason});
    flat_.view_of.push_back(FlatProgram::kOwn);
    return value;
  }

  void add_input(const GraphInput& input) {
    const std::uint32_t value = add_value(input.value, input.space);
    program().values[value].name = input.name;
    program().inputs.push_back({input.name, value, input.kind});
  }

  // A value that is read: constants come in when they are first needed.
  std::uint32_t use(GraphValueId id) {
    if (id == kNoValue) return ProgramOp::kAbsent;
    if (index(id) == ProgramOp::kAbsent) {
      TILEMESH_CHECK(graph_.is_constant(id), "a value is read before it is made");
      const std::uint32_t value = add_value(id);
      const ConstantPool::Entry entry = pool_.add(*graph_[id].constant, placed_.spec(id));
      program().constants.push_back({value, entry.offset, entry.bytes, entry.hash});
    }
    return index(id);
  }

  // A value that is made; it has an index already if it is a branch's output.
  std::uint32_t make(GraphValueId id) {
    if (id == kNoValue) return ProgramOp::kAbsent;
    return index(id) != ProgramOp::kAbsent ? index(id) : add_value(id);
  }

  void add_block(const GraphBlock& block) {
    for (const GraphNode& node : block.nodes) {
      switch (node.kind) {
        case GraphNode::Kind::call: add_call(node); break;
        case GraphNode::Kind::branch: add_branch(node); break;
        case GraphNode::Kind::loop: add_loop(node); break;
        case GraphNode::Kind::fail: add_fail(node); break;
      }
    }
  }

  // What only shows bytes in another way is no op: its value shares the storage of its input.
  void add_call(const GraphNode& node) {
    const bool is_made_here =
        node.outputs.size() == 1 && index(node.outputs[0]) == ProgramOp::kAbsent;
    if (is_made_here && is_free_view(placed_.shard_call(node))) {
      const std::uint32_t source = use(node.inputs[0]);
      flat_.view_of[add_value(node.outputs[0])] = source;
      return;
    }
    ProgramOp op;
    op.op = node.def->name;
    op.attributes = node.attributes;
    op.epilogue = node.epilogue;
    op.name = node.name;
    op.message = node.message;
    // No kernel: the devices' exchange does it.
    op.implementation = op.op == "reshard" ? "exchange" : node.implementation;
    for (const GraphValueId id : node.inputs)
      op.inputs.push_back(use(id));
    for (const GraphValueId id : node.outputs)
      op.outputs.push_back(make(id));
    program().ops.push_back(std::move(op));
  }

  void add_fail(const GraphNode& node) {
    ProgramOp op;
    op.kind = ProgramOp::Kind::fail;
    op.name = node.name;
    op.message = node.message;
    program().ops.push_back(std::move(op));
  }

  std::size_t add_jump(ProgramOp::Kind kind, std::vector<std::uint32_t> inputs,
                       const std::string& name) {
    ProgramOp op;
    op.kind = kind;
    op.inputs = std::move(inputs);
    op.name = name;
    program().ops.push_back(std::move(op));
    return program().ops.size() - 1;
  }

  void land(std::size_t jump) {
    program().ops[jump].target = narrow<std::uint32_t>(program().ops.size());
  }

  void add_branch(const GraphNode& node) {
    const std::size_t to_else =
        add_jump(ProgramOp::Kind::jump_if_false, {use(node.inputs[0])}, node.name);
    for (const GraphValueId id : node.outputs)
      make(id);
    add_side(*node.blocks[0], node);
    const bool has_else = !node.blocks[1]->nodes.empty() || !node.blocks[1]->results.empty();
    const std::size_t to_end = has_else ? add_jump(ProgramOp::Kind::jump, {}, node.name) : to_else;
    land(to_else);
    if (!has_else) return;
    add_side(*node.blocks[1], node);
    land(to_end);
  }

  static bool makes(const GraphBlock& block, GraphValueId id) {
    return std::ranges::any_of(block.nodes, [&](const GraphNode& node) {
      return std::ranges::find(node.outputs, id) != node.outputs.end();
    });
  }

  // A result that the block itself makes is written into the branch's output at once; the others
  // are copied.
  void add_side(const GraphBlock& block, const GraphNode& branch) {
    std::vector<bool> direct(block.results.size());
    for (std::size_t i = 0; i < block.results.size(); ++i) {
      const GraphValueId id = block.results[i];
      direct[i] = makes(block, id) && index(id) == ProgramOp::kAbsent;
      if (direct[i]) index(id) = index(branch.outputs[i]);
    }
    add_block(block);
    for (std::size_t i = 0; i < block.results.size(); ++i) {
      if (!direct[i]) add_copy(use(block.results[i]), index(branch.outputs[i]), branch.name);
    }
  }

  void add_copy(std::uint32_t from, std::uint32_t to, const std::string& name) {
    ProgramOp op;
    op.op = "identity";
    op.name = name;
    op.inputs = {from};
    op.outputs = {to};
    program().ops.push_back(std::move(op));
  }

  // What is carried has one place for all iterations, which is the output's as well. The counter is
  // the first to be written, so that the loop can be found by it.
  void add_loop(const GraphNode& node) {
    constexpr std::size_t kCarried = 2;
    const GraphBlock& body = *node.blocks[0];
    for (std::size_t i = 0; i < body.parameters.size(); ++i) {
      const GraphValueId output = node.outputs[i];
      index(body.parameters[i]) =
          output == kNoValue ? add_value_like(body.parameters[i]) : make(output);
      add_copy(use(node.inputs[kCarried + i]), index(body.parameters[i]), node.name);
    }
    const std::size_t past =
        add_jump(ProgramOp::Kind::jump_if_false, {use(node.inputs[0])}, node.name);
    const std::size_t head = program().ops.size();
    const std::vector<bool> in_place = results_in_place(placed_, body);
    for (std::size_t i = 1; i < in_place.size(); ++i) {
      if (in_place[i]) index(body.results[i]) = index(body.parameters[i]);
    }
    add_block(body);
    carry_over(body, in_place, node.name);
    const bool always = is_true(body.results[0]);
    ProgramOp repeat;
    repeat.kind = ProgramOp::Kind::repeat;
    repeat.name = node.name;
    repeat.inputs = {index(body.parameters[0]), use(node.inputs[1]),
                     always ? ProgramOp::kAbsent : use(body.results[0])};
    repeat.target = narrow<std::uint32_t>(head);
    repeat.limit = node.limit;
    program().ops.push_back(std::move(repeat));
    land(past);
  }

  bool is_true(GraphValueId id) const {
    return graph_.is_constant(id) && graph_[id].constant->bytes->front() != std::byte{0};
  }

  // What wasn't made where it is carried is copied there; by way of another place if it is carried
  // too, since two values may change places.
  void carry_over(const GraphBlock& body, const std::vector<bool>& in_place,
                  const std::string& name) {
    const std::vector<bool> carried = shows_parameter(placed_, body);
    std::vector<std::pair<std::uint32_t, std::uint32_t>> copies;
    for (std::size_t i = 1; i < body.results.size(); ++i) {
      if (in_place[i] || body.results[i] == body.parameters[i]) continue;
      std::uint32_t from = use(body.results[i]);
      if (carried[i]) {
        const std::uint32_t aside = add_value_like(body.parameters[i]);
        add_copy(from, aside, name);
        from = aside;
      }
      copies.emplace_back(from, index(body.parameters[i]));
    }
    for (const auto& [from, to] : copies)
      add_copy(from, to, name);
  }

  const PlacedGraph& placed_;
  const Graph& graph_;
  ConstantPool& pool_;
  FlatProgram flat_;
  std::vector<std::uint32_t> index_;
};

}  // namespace

FlatProgram flatten(const PlacedGraph& placed, ConstantPool& pool) {
  return Flattener(placed, pool).run();
}

}  // namespace tilemesh
