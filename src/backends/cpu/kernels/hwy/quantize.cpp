#include <string>
#include <utility>

#include <fmt/format.h>

#include "chunk_quantize.hpp"
#include "elementwise.hpp"
#include "offers.hpp"

namespace tilemesh::cpu::highway {
namespace {

/// Collects the operands of a call as they are, or as f32.
class Builder {
 public:
  explicit Builder(const OpCall& call) : call_(call) {
    program_.output = call.outputs[0];
    program_.output_place = call.inputs.size();
  }

  ValueRef input(std::size_t place) {
    ValueRef value{ValueRef::Kind::operand, static_cast<int>(program_.operands.size())};
    program_.operands.push_back(call_.inputs[place]);
    program_.places.push_back(place);
    return value;
  }
  ValueRef real(std::size_t place) {
    const ValueRef value = input(place);
    const DType dtype = call_.inputs[place].dtype;
    return dtype == DType::f32 ? value : add({.fn = cast_chunk(dtype, DType::f32), .in = {value}});
  }
  ValueRef add(Instruction instruction) {
    instruction.out = {ValueRef::Kind::intermediate, intermediates_++};
    program_.instructions.push_back(instruction);
    return instruction.out;
  }
  /// `fn` of x, the scale and, where the call has one, the zero point.
  ValueRef add_scaled(ChunkFn fn, ValueRef x) {
    constexpr double kCost = 2;
    Instruction instruction{.fn = fn, .inputs = 2, .in = {x, real(1)}, .cost = kCost};
    if (call_.inputs.size() > 2 && call_.inputs[2].present) {
      instruction.inputs = 3;
      instruction.in[2] = input(2);
    }
    return add(instruction);
  }
  KernelOffer finish(int device_threads) {
    program_.instructions.back().out = {ValueRef::Kind::output, 0};
    return {make_elementwise(std::move(program_), fmt::format("highway:{}", call_.def->name),
                             device_threads),
            ""};
  }

 private:
  const OpCall& call_;
  ElementwiseProgram program_;
  int intermediates_ = 0;
};

/// Where parameters come in blocks, the call with the dim of the blocks split in two: parameters
/// then broadcast. Empty, or why that can't be.
std::string split_blocks(OpCall& call) {
  const std::int64_t block = call.attributes.integer("block_size");
  if (block == 0) return "";
  const auto axis = static_cast<int>(call.attributes.integer("axis"));
  const Shape shape = call.inputs[0].shape;
  if (shape[axis] % block != 0) return "a last block that isn't whole";
  if (shape.rank() == kMaxRank) return "blocks of a tensor of the highest rank";
  const auto split = [&](OperandType& type, std::int64_t size) {
    const int own = axis - (shape.rank() - type.shape.rank());
    Dims dims;
    for (int d = 0; d < type.shape.rank(); ++d) {
      dims.push_back(d == own ? type.shape[d] / size : type.shape[d]);
      if (d == own) dims.push_back(size);
    }
    type.shape = Shape(dims);
  };
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!call.inputs[i].present) continue;
    if (!call.inputs[i].layout.is_rows()) return "blocks of a tensor that isn't in rows";
    split(call.inputs[i], i == 0 ? block : 1);
  }
  if (!call.outputs[0].layout.is_rows()) return "blocks of a tensor that isn't in rows";
  split(call.outputs[0], block);
  return "";
}

}  // namespace

KernelOffer offer_quantize(const OpCall& given, const KernelContext& context) {
  if (std::string reason = why_not(given); !reason.empty()) return {nullptr, reason};
  OpCall call = given;
  if (std::string reason = split_blocks(call); !reason.empty()) return {nullptr, reason};
  const ChunkFn fn = quantize_chunk(call.outputs[0].dtype);
  if (fn == nullptr) return {nullptr, "no such integers"};
  Builder builder(call);
  builder.add_scaled(fn, builder.real(0));
  return builder.finish(context.threads);
}

KernelOffer offer_dequantize(const OpCall& given, const KernelContext& context) {
  if (std::string reason = why_not(given); !reason.empty()) return {nullptr, reason};
  OpCall call = given;
  if (std::string reason = split_blocks(call); !reason.empty()) return {nullptr, reason};
  const ChunkFn fn = dequantize_chunk(call.inputs[0].dtype);
  if (fn == nullptr) return {nullptr, "no such integers"};
  Builder builder(call);
  const ValueRef real = builder.add_scaled(fn, builder.input(0));
  const DType dtype = call.outputs[0].dtype;
  if (dtype != DType::f32) builder.add({.fn = cast_chunk(DType::f32, dtype), .in = {real}});
  return builder.finish(context.threads);
}

KernelOffer offer_requantize(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const ChunkFn fn = requantize_chunk(call.outputs[0].dtype);
  if (fn == nullptr) return {nullptr, "no such integers"};
  Builder builder(call);
  ValueRef sum = builder.input(0);
  if (call.inputs.size() > 3 && call.inputs[3].present) {
    const ValueRef bias = builder.input(3);
    sum =
        builder.add({.fn = typed_chunk(ScalarFn::add, DType::i32), .inputs = 2, .in = {sum, bias}});
  }
  builder.add_scaled(fn, sum);
  return builder.finish(context.threads);
}

KernelOffer offer_quantized_add(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const ChunkFn sum = multiply_add_chunk(call.inputs[0].dtype);
  const ChunkFn round = round_chunk(call.outputs[0].dtype);
  if (sum == nullptr || round == nullptr) return {nullptr, "no such integers"};
  Builder builder(call);
  ValueRef total = builder.input(4);
  for (const std::size_t operand : {std::size_t{1}, std::size_t{0}}) {
    const ValueRef x = builder.input(operand);
    total = builder.add({.fn = sum, .inputs = 3, .in = {x, builder.input(operand + 2), total}});
  }
  builder.add({.fn = round, .in = {total}, .cost = 2});
  return builder.finish(context.threads);
}

KernelOffer offer_quantized_mul(const OpCall& call, const KernelContext& context) {
  if (std::string reason = why_not(call); !reason.empty()) return {nullptr, reason};
  const ChunkFn difference = difference_chunk(call.inputs[0].dtype);
  const ChunkFn round = round_chunk(call.outputs[0].dtype);
  if (difference == nullptr || round == nullptr) return {nullptr, "no such integers"};
  Builder builder(call);
  const auto real = [&](std::size_t operand) {
    Instruction instruction{.fn = difference, .in = {builder.input(operand)}};
    const std::size_t zero_point = operand + 4;
    if (zero_point < call.inputs.size() && call.inputs[zero_point].present) {
      instruction.inputs = 2;
      instruction.in[1] = builder.input(zero_point);
    }
    return builder.add(instruction);
  };
  const auto combine = [&](ScalarFn fn, ValueRef a, ValueRef b) {
    return builder.add({.fn = float_chunk(fn), .inputs = 2, .in = {a, b}});
  };
  const ValueRef a = real(0);
  const ValueRef product = combine(ScalarFn::mul, a, real(1));
  const ValueRef scaled = combine(ScalarFn::mul, product, builder.input(2));
  const ValueRef moved = combine(ScalarFn::add, scaled, builder.input(3));
  builder.add({.fn = round, .in = {moved}, .cost = 2});
  return builder.finish(context.threads);
}

}  // namespace tilemesh::cpu::highway
