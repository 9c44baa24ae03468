#include "compiler/testing.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>

#include <fmt/format.h>

#include "tilemesh/types/strided.hpp"

namespace tilemesh::testing {
namespace {

bool is_any_of(std::string_view op, std::initializer_list<std::string_view> names) {
  return std::ranges::find(names, op) != names.end();
}

class BlockedTarget final : public Target {
 public:
  explicit BlockedTarget(const Layout& image) : image_(image) {}

  const TargetInfo& info() const override { return info_; }

  std::vector<Candidate> candidates(const OpCall& call,
                                    const std::vector<bool>& constant_inputs) const override {
    std::vector<Candidate> all;
    const std::string_view op = call.def->name;
    if (op == "conv" && call.outputs[0].shape.rank() == 4) all.push_back(blocked_conv(call));
    if (op == "matmul" && constant_inputs[1] && call.inputs[1].shape.rank() == 2) {
      Candidate packed = rows(call, 0.5);
      packed.inputs[1] = Layout({}, {{1, 8}, {0, 2}});
      all.push_back(packed);
    }
    if (is_any_of(op, {"map", "max_pool", "average_pool", "batch_normalization"})) {
      all.push_back(following(call));
    }
    all.push_back(rows(call, 1));
    return all;
  }

  double convert_seconds(const OperandType& /*from*/, const Layout& /*to*/) const override {
    return 0.3;
  }

  bool can_fuse(const OpCall& call, const ExpressionStep& /*step*/,
                const OperandType* /*operand*/) const override {
    return is_any_of(call.def->name, {"conv", "conv_transpose", "matmul"});
  }

 private:
  static Candidate rows(const OpCall& call, double seconds) {
    Candidate candidate;
    candidate.implementation = "rows";
    candidate.inputs.resize(call.inputs.size());
    candidate.outputs.resize(call.outputs.size());
    candidate.seconds = seconds;
    return candidate;
  }

  Candidate blocked_conv(const OpCall& call) const {
    Candidate candidate = rows(call, 0.1);
    candidate.implementation = "blocked";
    candidate.inputs[0] = image_;
    candidate.inputs[1] = Layout({}, {{1, 4}, {0, 4}});
    candidate.outputs[0] = image_;
    for (std::size_t i = 3; i < call.inputs.size(); ++i) {
      if (call.inputs[i].shape.rank() == 4) candidate.inputs[i] = image_;
    }
    return candidate;
  }

  // The layout of the first input of the output's shape; others of that shape come along.
  static Candidate following(const OpCall& call) {
    Candidate candidate = rows(call, 0.2);
    candidate.implementation = "following";
    for (const OperandType& input : call.inputs) {
      if (input.present && !input.layout.is_rows()) {
        candidate.outputs[0] = input.layout;
        break;
      }
    }
    for (std::size_t i = 0; i < call.inputs.size(); ++i) {
      if (call.inputs[i].present && call.inputs[i].shape.rank() == call.outputs[0].shape.rank()) {
        candidate.inputs[i] = candidate.outputs[0];
      }
    }
    return candidate;
  }

  Layout image_;
  TargetInfo info_;
};

double element(const ConstantData& data, std::int64_t i) {
  double value = 0;
  copy_strided({data.bytes->data() + i * size_of(data.dtype), data.dtype, {}, {}},
               {reinterpret_cast<std::byte*>(&value), DType::f64, {}, {}});
  return value;
}

}  // namespace

const Target& blocked_target() {
  static const BlockedTarget target(Layout::blocked(1, 4));
  return target;
}

const Target& channels_last_target() {
  static const BlockedTarget target(Layout::channels_last(4));
  return target;
}

ConstantData floats(const Shape& shape, std::vector<float> values) {
  TILEMESH_CHECK(std::cmp_equal(values.size(), shape.element_count()), "a wrong number of values");
  const auto bytes = std::as_bytes(std::span<const float>(values));
  return {DType::f32, shape,
          std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end())};
}

ConstantData random_data(DType dtype, const Shape& shape, std::mt19937& random) {
  std::vector<float> values(static_cast<std::size_t>(shape.element_count()));
  std::uniform_real_distribution<float> real(-1, 1);
  std::uniform_int_distribution<int> whole(0, dtype == DType::boolean ? 1 : 3);
  for (float& value : values) {
    value = is_float(dtype) ? real(random) : static_cast<float>(whole(random));
  }
  auto bytes = std::make_shared<std::vector<std::byte>>(values.size() *
                                                        static_cast<std::size_t>(size_of(dtype)));
  const Dims strides = row_major_strides(shape);
  copy_strided({reinterpret_cast<const std::byte*>(values.data()), DType::f32, shape, strides},
               {bytes->data(), dtype, shape, strides});
  return {dtype, shape, bytes};
}

Values random_inputs(const Graph& graph, std::uint32_t seed) {
  std::mt19937 random(seed);
  Values values;
  for (const GraphInput& input : graph.inputs) {
    const OperandType& type = graph[input.value].type;
    values[input.name] = random_data(type.dtype, type.shape, random);
  }
  return values;
}

std::string difference(const ConstantData& got, const ConstantData& wanted, double tolerance) {
  if (got.dtype != wanted.dtype || !(got.shape == wanted.shape)) {
    return fmt::format("{}{} instead of {}{}", to_string(got.dtype), got.shape.to_string(),
                       to_string(wanted.dtype), wanted.shape.to_string());
  }
  for (std::int64_t i = 0; i < got.shape.element_count(); ++i) {
    const double a = element(got, i);
    const double b = element(wanted, i);
    const bool same = a == b || (std::isnan(a) && std::isnan(b)) ||
                      std::abs(a - b) <= tolerance * std::max(1.0, std::abs(b));
    if (!same) return fmt::format("element {} is {} instead of {}", i, a, b);
  }
  return {};
}

namespace {

// One device's memory: buffers of inputs and outputs, and the workspaces.
class Device {
 public:
  Device(const Program& program, std::span<const std::byte> constants, const MeshCoord& coord)
      : program_(program), constants_(constants), coord_(coord) {
    const auto garbage = [](std::int64_t bytes) {
      return std::vector<std::byte>(static_cast<std::size_t>(bytes), std::byte{0xff});
    };
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      inputs_.push_back(garbage(program.input_spec(i).bytes_per_device()));
    }
    for (std::size_t i = 0; i < program.outputs.size(); ++i) {
      outputs_.push_back(garbage(program.output_spec(i).bytes_per_device()));
    }
    dram_ = garbage(program.dram_workspace_bytes);
    l1_ = garbage(program.l1_workspace_bytes);
  }

  void set_input(std::size_t i, const ConstantData& data) {
    const TensorSpec& spec = program_.input_spec(i);
    const Shape shard = spec.shard_shape();
    std::vector<std::byte> rows(
        static_cast<std::size_t>(shard.element_count() * size_of(spec.dtype)));
    copy_part(spec, const_cast<std::byte*>(data.bytes->data()), rows.data(), true);
    relayout(rows.data(), spec.dtype, {}, inputs_[i].data(), spec.dtype, spec.layout, shard);
  }

  void add_output(std::size_t i, std::vector<std::byte>& global) {
    const TensorSpec& spec = program_.output_spec(i);
    const Shape shard = spec.shard_shape();
    std::vector<std::byte> rows(
        static_cast<std::size_t>(shard.element_count() * size_of(spec.dtype)));
    relayout(address(program_.outputs[i].value), spec.dtype, spec.layout, rows.data(), spec.dtype,
             {}, shard);
    copy_part(spec, global.data(), rows.data(), false);
  }

  void run() {
    for (std::size_t i = 0; i < program_.ops.size();) {
      const ProgramOp& op = program_.ops[i];
      const std::size_t next = i + 1;
      switch (op.kind) {
        case ProgramOp::Kind::call:
          call(i);
          i = next;
          break;
        case ProgramOp::Kind::jump: i = op.target; break;
        case ProgramOp::Kind::jump_if_false:
          i = *address(op.inputs[0]) == std::byte{0} ? op.target : next;
          break;
        case ProgramOp::Kind::fail: throw Error(ErrorCode::kernel_failed, op.message);
      }
    }
  }

 private:
  std::byte* address(std::uint32_t value) {
    const ProgramValue& v = program_.values[value];
    const auto offset = static_cast<std::size_t>(v.storage.offset);
    switch (v.storage.kind) {
      case Storage::Kind::input: return inputs_[v.storage.index].data() + offset;
      case Storage::Kind::output: return outputs_[v.storage.index].data() + offset;
      case Storage::Kind::constant:
        return const_cast<std::byte*>(constants_.data()) +
               program_.constants[v.storage.index].offset + offset;
      case Storage::Kind::workspace:
        return (v.spec.space == Space::l1 ? l1_ : dram_).data() + offset;
      case Storage::Kind::none: break;
    }
    return nullptr;
  }

  void call(std::size_t i) {
    const OpCall op = shard_call(program_, i);
    std::vector<const std::byte*> inputs;
    std::vector<std::byte*> outputs;
    for (const std::uint32_t v : program_.ops[i].inputs) {
      inputs.push_back(v == ProgramOp::kAbsent ? nullptr : address(v));
    }
    for (const std::uint32_t v : program_.ops[i].outputs) {
      outputs.push_back(v == ProgramOp::kAbsent ? nullptr : address(v));
    }
    const bool is_shown = op.def->is_view && inputs[0] == outputs[0];
    if (!is_shown) run_reference(op, inputs, outputs);
  }

  // Between the global rows and this device's shard in rows.
  void copy_part(const TensorSpec& spec, std::byte* global, std::byte* shard, bool to_shard) const {
    const Extents extents = spec.extents(coord_);
    const Dims strides = row_major_strides(spec.shape);
    std::int64_t offset = 0;
    Dims sizes;
    for (std::size_t d = 0; d < extents.size(); ++d) {
      offset += extents[d].begin * strides[d];
      sizes.push_back(extents[d].size);
    }
    const Shape part{sizes};
    if (part.element_count() == 0) return;
    const StridedView whole{global + offset * size_of(spec.dtype), spec.dtype, part, strides};
    const StridedView own{shard, spec.dtype, part, row_major_strides(spec.shard_shape())};
    copy_strided(to_shard ? whole : own, to_shard ? own : whole);
  }

  const Program& program_;
  std::span<const std::byte> constants_;
  MeshCoord coord_;
  std::vector<std::vector<std::byte>> inputs_, outputs_;
  std::vector<std::byte> dram_, l1_;
};

}  // namespace

std::vector<ConstantData> execute(const Program& program, std::span<const std::byte> constants,
                                  const Values& inputs) {
  std::vector<std::shared_ptr<std::vector<std::byte>>> results;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const TensorSpec& spec = program.output_spec(i);
    results.push_back(std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(spec.shape.element_count() * size_of(spec.dtype))));
  }
  for (int d = 0; d < program.mesh.device_count(); ++d) {
    Device device(program, constants, program.mesh.coord_of(d));
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      device.set_input(i, inputs.at(program.inputs[i].name));
    }
    device.run();
    for (std::size_t i = 0; i < results.size(); ++i)
      device.add_output(i, *results[i]);
  }
  std::vector<ConstantData> outputs;
  for (std::size_t i = 0; i < results.size(); ++i) {
    outputs.push_back({program.output_spec(i).dtype, program.output_spec(i).shape, results[i]});
  }
  return outputs;
}

std::vector<ConstantData> lower_and_execute(const Graph& graph, const Target& target,
                                            const Values& inputs, const MeshShape& mesh) {
  ConstantPool pool;
  const Program program = lower(graph, pool, {target, mesh, true, {}});
  verify(program, pool.section().size());
  return execute(program, pool.section(), inputs);
}

namespace {

void add_names(const GraphBlock& block, std::string& text) {
  for (const GraphNode& node : block.nodes) {
    if (!text.empty() && text.back() != '(' && text.back() != ' ') text += " ";
    switch (node.kind) {
      case GraphNode::Kind::call: text += node.def->name; break;
      case GraphNode::Kind::fail: text += "fail"; break;
      case GraphNode::Kind::branch:
        text += "if(";
        add_names(*node.then_block, text);
        text += " | ";
        add_names(*node.else_block, text);
        text += ")";
        break;
    }
  }
}

}  // namespace

std::string op_names(const Graph& graph) {
  std::string text;
  add_names(graph.body, text);
  return text;
}

}  // namespace tilemesh::testing
