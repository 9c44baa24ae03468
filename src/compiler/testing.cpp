#include "compiler/testing.hpp"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/ops/repeat.hpp"
#include "tilemesh/types/redistribution.hpp"
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
    // What lies beyond an uneven shard is anything.
    std::vector<std::byte> rows(
        static_cast<std::size_t>(shard.element_count() * size_of(spec.dtype)),
        spec.dtype == DType::boolean ? std::byte{1} : std::byte{0xff});
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

  /// Runs op `i` and gives the place of the next one.
  std::size_t run(std::size_t i) {
    const ProgramOp& op = program_.ops[i];
    switch (op.kind) {
      case ProgramOp::Kind::call: call(i); return i + 1;
      case ProgramOp::Kind::jump: return op.target;
      case ProgramOp::Kind::jump_if_false:
        return *address(op.inputs[0]) == std::byte{0} ? op.target : i + 1;
      case ProgramOp::Kind::repeat: {
        std::array<std::byte*, 3> operands{};
        for (std::size_t k = 0; k < 3; ++k) {
          if (op.inputs[k] != ProgramOp::kAbsent) operands[k] = address(op.inputs[k]);
        }
        return repeats(operands.data(), op.limit) ? op.target : i + 1;
      }
      case ProgramOp::Kind::fail: throw Error(ErrorCode::kernel_failed, op.message);
    }
    return i + 1;
  }

  /// A value's shard in rows, and setting it.
  std::vector<std::byte> rows_of(std::uint32_t value) {
    const TensorSpec& spec = program_.values[value].spec;
    std::vector<std::byte> rows(
        static_cast<std::size_t>(spec.shard_shape().element_count() * size_of(spec.dtype)));
    relayout(address(value), spec.dtype, spec.layout, rows.data(), spec.dtype, {},
             spec.shard_shape());
    return rows;
  }
  void set_rows(std::uint32_t value, const std::vector<std::byte>& rows) {
    const TensorSpec& spec = program_.values[value].spec;
    relayout(rows.data(), spec.dtype, {}, address(value), spec.dtype, spec.layout,
             spec.shard_shape());
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
               program_.constants[v.storage.index].offset +
               static_cast<std::size_t>(v.spec.bytes_per_device() * shard_number(v.spec)) + offset;
      case Storage::Kind::workspace:
        return (v.spec.space == Space::l1 ? l1_ : dram_).data() + offset;
      case Storage::Kind::none: break;
    }
    return nullptr;
  }

  // Of a constant: see ConstantPool.
  std::int64_t shard_number(const TensorSpec& spec) const {
    std::int64_t number = 0;
    for (int axis = 0; axis < spec.mesh.axes(); ++axis) {
      if (!spec.placement(axis).is_shard()) continue;
      number = number * spec.mesh[axis] + coord_[static_cast<std::size_t>(axis)];
    }
    return number;
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

// One element of a reduction, as double: the tests' values are small.
double together(ReduceOp op, double a, double b) {
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return a + b;
    case ReduceOp::max: return std::max(a, b);
    case ReduceOp::min: return std::min(a, b);
    case ReduceOp::prod: return a * b;
  }
  return a;
}

double neutral(ReduceOp op, DType dtype) {
  const double most = is_float(dtype)           ? std::numeric_limits<double>::infinity()
                      : dtype == DType::boolean ? 1
                      : size_of(dtype) == 1     ? 127
                                                : 1e9;
  switch (op) {
    case ReduceOp::sum:
    case ReduceOp::mean: return 0;
    case ReduceOp::max: return is_float(dtype) ? -most : dtype == DType::boolean ? 0 : -most;
    case ReduceOp::min: return most;
    case ReduceOp::prod: return 1;
  }
  return 0;
}

// The elements of all shards of a value as doubles, and back.
class ShardValues {
 public:
  ShardValues(const TensorSpec& spec, double value) : shape(spec.shard_shape()), dtype(spec.dtype) {
    values.assign(static_cast<std::size_t>(shape.element_count()), value);
  }
  void read(const std::vector<std::byte>& rows) {
    copy_strided({rows.data(), dtype, shape, row_major_strides(shape)}, view());
  }
  std::vector<std::byte> write() {
    std::vector<std::byte> rows(values.size() * static_cast<std::size_t>(size_of(dtype)));
    copy_strided(view(), {rows.data(), dtype, shape, row_major_strides(shape)});
    return rows;
  }
  StridedView view() {
    return {reinterpret_cast<std::byte*>(values.data()), DType::f64, shape,
            row_major_strides(shape)};
  }

  Shape shape;
  DType dtype;
  std::vector<double> values;
};

void add_piece(const ShardPiece& piece, const ShardValues& source, ShardValues& target, bool first,
               ReduceOp op) {
  // A mean is a sum of what each part adds to it.
  const double share = op == ReduceOp::mean ? 1.0 / static_cast<double>(piece.sources.size()) : 1;
  const Dims from = row_major_strides(source.shape);
  const Dims to = row_major_strides(target.shape);
  const Shape box(piece.sizes);
  const Dims steps = row_major_strides(box);
  for (std::int64_t i = 0; i < box.element_count(); ++i) {
    std::int64_t a = 0;
    std::int64_t b = 0;
    for (std::size_t d = 0; d < steps.size(); ++d) {
      const std::int64_t index = i / steps[d] % piece.sizes[d];
      a += (piece.source_begin[d] + index) * from[d];
      b += (piece.target_begin[d] + index) * to[d];
    }
    double& value = target.values[static_cast<std::size_t>(b)];
    const double part = share * source.values[static_cast<std::size_t>(a)];
    value = first ? part : together(op, value, part);
  }
}

void exchange(const Program& program, const ProgramOp& op, std::vector<Device>& devices) {
  const TensorSpec& from = program.values[op.inputs[0]].spec;
  const TensorSpec& to = program.values[op.outputs[0]].spec;
  const auto fill = static_cast<ReduceOp>(op.attributes.integer("fill"));
  std::vector<ShardValues> sources(devices.size(), ShardValues(from, 0));
  for (std::size_t d = 0; d < devices.size(); ++d)
    sources[d].read(devices[d].rows_of(op.inputs[0]));
  for (std::size_t d = 0; d < devices.size(); ++d) {
    ShardValues target(to, neutral(fill, to.dtype));
    for (const ShardPiece& piece : pieces_for(from, to, static_cast<int>(d))) {
      bool first = true;
      for (const int source : piece.sources) {
        add_piece(piece, sources[static_cast<std::size_t>(source)], target, first,
                  piece.sources.size() == 1 ? ReduceOp::sum : reduction_between(from, to));
        first = false;
      }
    }
    devices[d].set_rows(op.outputs[0], target.write());
  }
}

}  // namespace

std::vector<ConstantData> execute(const Program& program, std::span<const std::byte> constants,
                                  const Values& inputs) {
  std::vector<std::shared_ptr<std::vector<std::byte>>> results;
  for (std::size_t i = 0; i < program.outputs.size(); ++i) {
    const TensorSpec& spec = program.output_spec(i);
    results.push_back(std::make_shared<std::vector<std::byte>>(
        static_cast<std::size_t>(spec.shape.element_count() * size_of(spec.dtype))));
  }
  std::vector<Device> devices;
  for (int d = 0; d < program.mesh.device_count(); ++d) {
    Device& device = devices.emplace_back(program, constants, program.mesh.coord_of(d));
    for (std::size_t i = 0; i < program.inputs.size(); ++i) {
      device.set_input(i, inputs.at(program.inputs[i].name));
    }
  }
  for (std::size_t i = 0; i < program.ops.size();) {
    if (program.ops[i].kind == ProgramOp::Kind::call && program.ops[i].op == "reshard") {
      exchange(program, program.ops[i], devices);
      ++i;
      continue;
    }
    std::size_t next = i;
    for (Device& device : devices)
      next = device.run(i);
    i = next;
  }
  for (Device& device : devices) {
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
                                            const Values& inputs, const MeshShape& mesh,
                                            const ShardWishes& wishes) {
  ConstantPool pool;
  const Program program = lower(graph, pool, {target, mesh, true, {}, wishes});
  // verify(program, pool.section().size());
  return execute(program, pool.section(), inputs);
}

namespace {

void add_names(const GraphBlock& block, std::string& text) {
  for (const GraphNode& node : block.nodes) {
    if (!text.empty() && text.back() != '(' && text.back() != ' ') text += " ";
    switch (node.kind) {
      case GraphNode::Kind::call: text += node.def->name; break;
      case GraphNode::Kind::fail: text += "fail"; break;
      case GraphNode::Kind::loop:
        text += "loop(";
        add_names(*node.blocks[0], text);
        text += ")";
        break;
      case GraphNode::Kind::branch:
        text += "if(";
        add_names(*node.blocks[0], text);
        text += " | ";
        add_names(*node.blocks[1], text);
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
