#include "program_parts.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <string_view>
#include <variant>

#include "tilemesh/base/error.hpp"

#include "program/codec.hpp"
#include "program/header.hpp"

namespace tilemesh::fuzz {
namespace {

constexpr std::int64_t kMostConstantBytes = 1 << 20;

/// Names of attributes of several ops: what one has not, it must refuse.
constexpr std::string_view kNames[] = {
    "axes",      "axis",          "pads",       "strides",     "dilations", "group",
    "kernel",    "starts",        "ends",       "steps",       "shape",     "order",
    "keepdims",  "mode",          "alpha",      "beta",        "to",        "epsilon",
    "sizes",     "scales",        "repeats",    "k",           "depth",     "equation",
    "size",      "reduction",     "upper",      "hidden_size", "direction", "layout",
    "roi",       "batch_dims",    "blocksize",  "exclusive",   "reverse",   "largest",
    "ceil_mode", "storage_order", "activations"};

constexpr std::string_view kTexts[] = {
    "",           "none",  "add",        "linear",        "cubic",         "nearest", "constant",
    "reflect",    "edge",  "wrap",       "forward",       "bidirectional", "LEFT",    "ij,jk->ik",
    "...i->i...", "ii->i", "a,b,c->abc", "align_corners", "sigmoid"};

template <class T, class Make>
void change_list(Random& random, std::vector<T>& list, const Make& make) {
  const std::size_t at = random.below(list.size());
  switch (random.below(5)) {
    case 0: list.clear(); return;
    case 1:
      if (!list.empty()) list.erase(list.begin() + static_cast<std::ptrdiff_t>(at));
      return;
    case 2: list.insert(list.begin() + static_cast<std::ptrdiff_t>(at), make()); return;
    default:
      if (!list.empty()) list[at] = make();
      return;
  }
}

// Wraps around the ends of the range.
std::int64_t near(Random& random, std::int64_t value) {
  const auto step = static_cast<std::uint64_t>(random.between(-2, 2));
  return static_cast<std::int64_t>(static_cast<std::uint64_t>(value) + step);
}

void change_value(Random& random, AttributeValue& value) {
  if (auto* integer = std::get_if<std::int64_t>(&value)) {
    *integer = random.one_in(3) ? near(random, *integer) : random.integer();
  } else if (auto* number = std::get_if<double>(&value)) {
    *number = random.number();
  } else if (auto* text = std::get_if<std::string>(&value)) {
    *text = random.of(kTexts);
  } else if (auto* integers = std::get_if<std::vector<std::int64_t>>(&value)) {
    change_list(random, *integers, [&] { return random.integer(); });
  } else if (auto* numbers = std::get_if<std::vector<double>>(&value)) {
    change_list(random, *numbers, [&] { return random.number(); });
  }
}

AttributeValue random_value(Random& random) {
  switch (random.below(5)) {
    case 0: return random.integer();
    case 1: return random.number();
    case 2: return std::string(random.of(kTexts));
    case 3: return std::vector<std::int64_t>(random.below(4), random.integer());
    default: return std::vector<double>(random.below(4), random.number());
  }
}

std::int64_t bytes_of(const TensorSpec& spec) {
  try {
    return spec.bytes_per_device();
  } catch (const Error&) {
    return 0;
  }
}

bool names_values(const Program& program, const ProgramOp& op) {
  const auto is_value = [&](std::uint32_t value) {
    return value == ProgramOp::kAbsent || value < program.values.size();
  };
  return std::ranges::all_of(op.inputs, is_value) && std::ranges::all_of(op.outputs, is_value);
}

/// What shard_call counts on.
void canonicalise_op(const Program& program, ProgramOp& op) {
  OpCall call{&get_op(op.op), op.attributes, op.epilogue, {}, {}};
  for (const std::uint32_t value : op.inputs) {
    OperandType& type = call.inputs.emplace_back();
    type.present =
        value != ProgramOp::kAbsent && program.values[value].storage.kind != Storage::Kind::none;
    if (!type.present) continue;
    type.dtype = program.values[value].spec.dtype;
    type.shape = program.values[value].spec.shape;
  }
  call.outputs.resize(op.outputs.size());
  canonicalise(call);
  op.attributes = std::move(call.attributes);
}

void infer_types(Program& program) {
  for (std::size_t i = 0; i < program.ops.size(); ++i) {
    ProgramOp& op = program.ops[i];
    if (op.kind != ProgramOp::Kind::call || is_reshard(op) || !names_values(program, op)) continue;
    canonicalise_op(program, op);
    OpCall call = shard_call(program, i);
    infer_outputs(call);
    for (std::size_t k = 0; k < op.outputs.size() && k < call.outputs.size(); ++k) {
      if (op.outputs[k] >= program.values.size()) continue;
      TensorSpec& spec = program.values[op.outputs[k]].spec;
      if (!(spec.shape == call.outputs[k].shape) && spec.is_replicated()) {
        spec.shape = call.outputs[k].shape;
        spec.layout = Layout();
      }
      spec.dtype = call.outputs[k].dtype;
    }
  }
}

void place(Program& program) {
  std::int64_t dram = 0;
  std::int64_t l1 = 0;
  for (ProgramValue& value : program.values) {
    if (value.storage.kind != Storage::Kind::workspace) continue;
    std::int64_t& end = value.spec.space == Space::l1 ? l1 : dram;
    value.storage.offset = end;
    end += (std::clamp<std::int64_t>(bytes_of(value.spec), 0, 1 << 26) + 63) / 64 * 64;
  }
  program.dram_workspace_bytes = dram;
  program.l1_workspace_bytes = l1;
}

void place_constants(Random& random, Program& program, std::vector<std::byte>& constants) {
  for (ProgramConstant& constant : program.constants) {
    if (constant.value >= program.values.size()) continue;
    const TensorSpec& spec = program.values[constant.value].spec;
    const std::int64_t bytes = bytes_of(spec) * shard_count(spec);
    if (bytes < 0 || bytes > kMostConstantBytes) continue;
    if (static_cast<std::uint64_t>(bytes) == constant.bytes) continue;
    constant.offset = (constants.size() + 63) / 64 * 64;
    constant.bytes = static_cast<std::uint64_t>(bytes);
    constants.resize(constant.offset + constant.bytes);
    for (std::size_t i = constant.offset; i < constants.size(); ++i)
      constants[i] = static_cast<std::byte>(random.one_in(4) ? random.next() : 0);
  }
}

}  // namespace

DType random_dtype(Random& random) {
  static constexpr DType kUsual[] = {DType::f32,  DType::f32,    DType::f32, DType::f16,
                                     DType::bf16, DType::i64,    DType::i32, DType::u8,
                                     DType::i8,   DType::boolean};
  return random.one_in(4) ? static_cast<DType>(random.below(kDTypeCount)) : random.of(kUsual);
}

Layout random_layout(Random& random, int rank) {
  switch (random.below(rank > 0 ? 6 : 1)) {
    case 0: return Layout::rows();
    case 1: return rank >= 2 ? Layout::channels_last(rank) : Layout::rows();
    case 2: {
      static constexpr int kSizes[] = {4, 8, 16, 16, 32, 48, 3};
      return Layout::blocked(static_cast<int>(random.between(0, rank - 1)), random.of(kSizes));
    }
    case 3:
      if (rank < 2) return Layout::rows();
      return Layout::tiled(rank, static_cast<int>(random.between(2, 33)),
                           static_cast<int>(random.between(2, 33)));
    case 4: {
      std::vector<int> dims(static_cast<std::size_t>(rank));
      std::iota(dims.begin(), dims.end(), 0);
      for (std::size_t i = dims.size(); i > 1; --i)
        std::swap(dims[i - 1], dims[random.below(i)]);
      Layout::Order order;
      for (const int dim : dims)
        order.push_back(static_cast<std::int8_t>(dim));
      Layout::Blocks blocks;
      for (std::uint64_t n = random.below(4); n > 0; --n)
        blocks.push_back({static_cast<int>(random.between(0, rank - 1)),
                          static_cast<int>(random.between(2, 17))});
      return {order, blocks};
    }
    default:
      return Layout::opaque({random.one_in(2) ? "cpu" : "onednn",
                             random.one_in(2) ? "winograd" : "", random.integer()});
  }
}

Placements random_placements(Random& random, int rank, int axes) {
  Placements placements;
  for (int axis = 0; axis < axes; ++axis) {
    switch (random.below(4)) {
      case 0:
        placements.push_back(
            shard(static_cast<int>(random.below(static_cast<std::uint64_t>(rank) + 1))));
        break;
      case 1: placements.push_back(partial(static_cast<ReduceOp>(random.below(5)))); break;
      default: placements.push_back(replicate()); break;
    }
  }
  return placements;
}

Shape changed_shape(Random& random, const Shape& shape) {
  Dims dims = shape.sizes();
  const std::size_t at = random.below(dims.size());
  switch (random.below(6)) {
    case 0: dims.insert(at, random.size()); break;
    case 1:
      if (!dims.empty()) dims.erase(at);
      break;
    case 2:
      if (!dims.empty()) dims[at] = random.integer();
      break;
    case 3:
      if (!dims.empty()) dims[at] = near(random, dims[at]);
      break;
    case 4:
      if (!dims.empty()) std::swap(dims[at], dims[random.below(dims.size())]);
      break;
    default:
      if (!dims.empty()) dims[at] = random.size();
      break;
  }
  return Shape(dims);
}

std::string change_attribute(Random& random, Attributes& attributes) {
  const auto& items = attributes.items();
  if (items.empty() || random.one_in(6)) {
    const std::string name(random.of(kNames));
    attributes.set(name, random_value(random));
    return "attribute " + name;
  }
  const std::size_t at = random.below(items.size());
  const std::string name = items[at].first;
  if (random.one_in(6)) {
    Attributes kept;
    for (const auto& [key, value] : items) {
      if (key != name) kept.set(key, value);
    }
    attributes = kept;
    return "no attribute " + name;
  }
  AttributeValue value = random.one_in(8) ? random_value(random) : items[at].second;
  change_value(random, value);
  attributes.set(name, std::move(value));
  return "attribute " + name;
}

ExpressionStep random_step(Random& random, std::size_t index, std::size_t operands) {
  ExpressionStep step;
  step.fn = static_cast<ScalarFn>(random.one_in(3) ? 64 + random.below(8) : random.below(39));
  if (random.one_in(40)) step.fn = static_cast<ScalarFn>(random.below(256));
  for (std::int16_t& argument : step.arguments) {
    switch (random.below(3)) {
      case 0: argument = ExpressionStep::kResult; break;
      case 1:
        argument = static_cast<std::int16_t>(index == 0 ? ExpressionStep::kResult
                                                        : static_cast<int>(random.below(index)));
        break;
      default:
        argument = static_cast<std::int16_t>(ExpressionStep::kOperand +
                                             static_cast<int>(random.below(operands + 1)));
        break;
    }
  }
  step.alpha = static_cast<float>(random.number());
  step.beta = static_cast<float>(random.number());
  return step;
}

void repair(Random& random, Program& program, std::vector<std::byte>& constants) {
  try {
    infer_types(program);
  } catch (const Error&) {  // what it has reached fits; the rest is for the verifier to refuse
  }
  place(program);
  place_constants(random, program, constants);
}

std::string file_of(const BinaryContents& contents) {
  return file_of(encode_table(contents.programs, contents.target, contents.metadata),
                 contents.constants);
}

std::string file_of(const std::vector<std::byte>& table, const std::vector<std::byte>& constants) {
  const FileHeader header = make_header(table, constants.size());
  const std::array<std::byte, kHeaderBytes> first = to_bytes(header);
  std::string file(header.constants_offset + constants.size(), '\0');
  std::memcpy(file.data(), first.data(), first.size());
  if (!table.empty()) std::memcpy(file.data() + kHeaderBytes, table.data(), table.size());
  if (!constants.empty())
    std::memcpy(file.data() + header.constants_offset, constants.data(), constants.size());
  return file;
}

}  // namespace tilemesh::fuzz
