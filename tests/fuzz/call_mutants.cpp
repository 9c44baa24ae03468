#include "call_mutants.hpp"

#include <cstring>
#include <map>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "ops/op_cases.hpp"
#include "program_parts.hpp"

namespace tilemesh::fuzz {
namespace {

constexpr std::int64_t kMostBytes = 1 << 20;

/// Gives each size of a case another one, the same for equal ones: so operands still go together.
class Resizing {
 public:
  explicit Resizing(Random& random) : random_(random) {}

  Shape operator()(const Shape& shape) {
    Dims dims = shape.sizes();
    for (std::int64_t& size : dims) {
      const auto [found, is_new] = sizes_.try_emplace(size, size);
      if (is_new && random_.one_in(2)) found->second = random_.size();
      size = found->second;
    }
    return random_.one_in(25) ? changed_shape(random_, Shape(dims)) : Shape(dims);
  }

 private:
  Random& random_;
  std::map<std::int64_t, std::int64_t> sizes_;
};

/// Integer attributes that speak of the case's sizes are resized with them.
void resize_attributes(Random& random, Attributes& attributes, Resizing& resizing) {
  Attributes changed;
  for (const auto& [name, value] : attributes.items()) {
    AttributeValue made = value;
    const bool sizes = name == "shape" || name == "sizes" || name == "hidden_size";
    if (auto* list = std::get_if<std::vector<std::int64_t>>(&made); sizes && list != nullptr) {
      const Shape shape = resizing(Shape(std::span<const std::int64_t>(*list)));
      list->assign(shape.begin(), shape.end());
    }
    changed.set(name, std::move(made));
  }
  attributes = changed;
  while (random.one_in(3))
    change_attribute(random, attributes);
}

OpCall draw_call(Random& random, const ops::testing::Case& one) {
  OpCall call;
  call.def = &get_op(one.op_name());
  call.attributes = one.attributes;
  call.epilogue = one.epilogue;
  call.outputs.resize(one.outputs);
  Resizing resizing(random);
  std::map<DType, DType> dtypes;
  for (const ops::testing::Value& input : one.inputs) {
    OperandType type = input.type;
    if (!type.present) {
      call.inputs.push_back(type);
      continue;
    }
    type.shape = resizing(type.shape);
    const auto [found, is_new] = dtypes.try_emplace(type.dtype, type.dtype);
    if (is_new && random.one_in(2)) found->second = random_dtype(random);
    type.dtype = random.one_in(20) ? random_dtype(random) : found->second;
    call.inputs.push_back(type);
  }
  resize_attributes(random, call.attributes, resizing);
  return call;
}

/// A few steps on the result, with operands of its shape or of a part of it.
void add_epilogue(Random& random, OpCall& call) {
  OpCall plain = call;
  infer_outputs(plain);
  const Shape result = plain.outputs.front().shape;
  const std::size_t steps = 1 + random.below(4);
  for (std::size_t i = 0; i < steps; ++i)
    call.epilogue.steps.push_back(random_step(random, i, call.inputs.size()));
  for (std::uint64_t n = random.below(3); n > 0; --n) {
    Dims dims = result.sizes();
    while (!dims.empty() && random.one_in(3))
      dims.erase(0);
    for (std::int64_t& size : dims) {
      if (random.one_in(4)) size = 1;
    }
    call.inputs.push_back({.dtype = plain.outputs.front().dtype,
                           .shape = Shape(dims),
                           .layout = {},
                           .present = true});
  }
}

Layout layout_for(Random& random, const Program& program, const Shape& shape) {
  if (!random.one_in(3)) return {};
  const bool follow = !program.values.empty() && random.one_in(2);
  Layout layout = follow ? program.values.front().spec.layout : random_layout(random, shape.rank());
  try {
    layout.check_rank(shape.rank());
  } catch (const Error&) {
    return {};
  }
  return layout.is_opaque() && !random.one_in(6) ? Layout() : layout;
}

class Builder {
 public:
  Builder(Random& random, const OpCall& call) : random_(random), call_(call) {
    program_.name = "call";
    op_.op = call.def->name;
    op_.name = "op";
    op_.attributes = call.attributes;
    op_.epilogue = call.epilogue;
    space_ = random.one_in(10) ? Space::l1 : Space::dram;
  }

  std::optional<BinaryContents> run() {
    for (const OperandType& input : call_.inputs)
      op_.inputs.push_back(input.present ? add_input(input) : ProgramOp::kAbsent);
    for (std::size_t i = 0; i < call_.outputs.size(); ++i) {
      const bool given = call_.outputs[i].present && (i == 0 || !random_.one_in(3));
      op_.outputs.push_back(given ? add_output(call_.outputs[i]) : ProgramOp::kAbsent);
    }
    program_.ops.push_back(op_);
    contents_.programs.push_back(program_);
    return too_large_ ? std::nullopt : std::optional(contents_);
  }

 private:
  std::uint32_t add_value(const OperandType& type, const Storage& storage) {
    ProgramValue value;
    value.name = fmt::format("v{}", program_.values.size());
    value.spec = {.shape = type.shape,
                  .dtype = type.dtype,
                  .layout = layout_for(random_, program_, type.shape),
                  .space = space_,
                  .mesh = program_.mesh};
    value.storage = storage;
    const std::int64_t bytes = value.spec.bytes_per_device();
    too_large_ = too_large_ || bytes < 0 || bytes > kMostBytes;
    program_.values.push_back(value);
    return static_cast<std::uint32_t>(program_.values.size() - 1);
  }

  std::uint32_t add_input(const OperandType& type) {
    if (random_.one_in(3)) return add_constant(type);
    const auto index = static_cast<std::uint32_t>(program_.inputs.size());
    const std::uint32_t value = add_value(type, {Storage::Kind::input, index, 0});
    program_.inputs.push_back({fmt::format("i{}", index), value, InputKind::activation});
    return value;
  }

  std::uint32_t add_constant(const OperandType& type) {
    const auto index = static_cast<std::uint32_t>(program_.constants.size());
    const std::uint32_t value = add_value(type, {Storage::Kind::constant, index, 0});
    if (too_large_) return value;
    const auto bytes = static_cast<std::size_t>(program_.values[value].spec.bytes_per_device());
    const std::size_t offset = (contents_.constants.size() + 63) / 64 * 64;
    contents_.constants.resize(offset + bytes);
    for (std::size_t i = offset; i < contents_.constants.size(); ++i)
      contents_.constants[i] =
          static_cast<std::byte>(random_.one_in(4) ? random_.next() : random_.below(3));
    program_.constants.push_back({value, offset, bytes, random_.next()});
    return value;
  }

  std::uint32_t add_output(const OperandType& type) {
    const auto index = static_cast<std::uint32_t>(program_.outputs.size());
    const std::uint32_t value = add_value(type, {Storage::Kind::output, index, 0});
    program_.outputs.push_back({fmt::format("o{}", index), value, -1});
    return value;
  }

  Random& random_;
  const OpCall& call_;
  Program program_;
  ProgramOp op_;
  BinaryContents contents_;
  Space space_;
  bool too_large_ = false;
};

}  // namespace

std::optional<BinaryContents> random_call(Random& random, std::string& text) {
  const ops::testing::Case& one = random.of(ops::testing::all_cases());
  if (one.op_name() == "reshard") return std::nullopt;
  try {
    OpCall call = draw_call(random, one);
    if (random.one_in(3) && call.epilogue.empty()) add_epilogue(random, call);
    infer_outputs(call);
    text = to_string(call);
    return Builder(random, call).run();
  } catch (const Error&) {
    return std::nullopt;
  }
}

}  // namespace tilemesh::fuzz
