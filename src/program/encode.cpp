#include <cstring>
#include <type_traits>

#include <flatbuffers/flatbuffers.h>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "codec.hpp"
#include "tilemesh_generated.h"

namespace tilemesh {
namespace {

using flatbuffers::FlatBufferBuilder;
using flatbuffers::Offset;

// The builder ends the process past 2 GiB; what we estimate too low leaves room up to there.
constexpr std::size_t kLargestTable = std::size_t{1} << 30;

std::size_t estimate(const Attributes& attributes) {
  std::size_t bytes = 0;
  for (const auto& [name, value] : attributes.items()) {
    bytes += 96 + name.size();
    bytes += std::visit(
        [](const auto& held) -> std::size_t {
          if constexpr (std::is_arithmetic_v<std::decay_t<decltype(held)>>) {
            return 8;
          } else {
            return held.size() * sizeof(held[0]);
          }
        },
        value);
  }
  return bytes;
}

std::size_t estimate(const Program& program) {
  std::size_t bytes = 256 + program.name.size();
  for (const ProgramValue& value : program.values) {
    bytes += 384 + value.name.size() + value.reason.size();
  }
  for (const ProgramOp& op : program.ops) {
    bytes += 256 + estimate(op.attributes) + op.epilogue.steps.size() * 16 +
             (op.inputs.size() + op.outputs.size()) * 4 + op.op.size() + op.name.size() +
             op.message.size() + op.implementation.size();
  }
  for (const ProgramInput& input : program.inputs) {
    bytes += 64 + input.name.size();
  }
  for (const ProgramOutput& output : program.outputs) {
    bytes += 64 + output.name.size();
  }
  return bytes + program.constants.size() * 32;
}

/// Absent fields are the defaults of the schema; nothing is written for an empty string.
Offset<flatbuffers::String> text(FlatBufferBuilder& builder, const std::string& value) {
  return value.empty() ? Offset<flatbuffers::String>() : builder.CreateString(value);
}

template <class T>
Offset<flatbuffers::Vector<T>> numbers(FlatBufferBuilder& builder, const std::vector<T>& values) {
  return values.empty() ? Offset<flatbuffers::Vector<T>>() : builder.CreateVector(values);
}

template <class T>
Offset<flatbuffers::Vector<Offset<T>>> tables(FlatBufferBuilder& builder,
                                              const std::vector<Offset<T>>& items) {
  return items.empty() ? Offset<flatbuffers::Vector<Offset<T>>>() : builder.CreateVector(items);
}

template <class T>
Offset<flatbuffers::Vector<const T*>> structs(FlatBufferBuilder& builder,
                                              const std::vector<T>& items) {
  return items.empty() ? Offset<flatbuffers::Vector<const T*>>()
                       : builder.CreateVectorOfStructs(items);
}

Offset<schema::Layout> encode(FlatBufferBuilder& builder, const Layout& layout, int rank) {
  if (layout.is_rows()) {
    return {};
  }
  if (layout.is_opaque()) {
    const auto backend = builder.CreateString(layout.opaque().backend);
    const auto tag = builder.CreateString(layout.opaque().tag);
    const auto opaque = schema::CreateOpaque(builder, backend, tag, layout.opaque().bytes);
    return schema::CreateLayout(builder, {}, {}, opaque);
  }
  std::vector<std::int8_t> order;
  const Layout::Order dims = layout.order(rank);
  for (std::size_t i = 0; i < dims.size(); ++i) {
    order.push_back(dims[i]);
  }
  std::vector<schema::Block> blocks;
  for (const Layout::Block& block : layout.blocks()) {
    blocks.emplace_back(block.dim, block.size);
  }
  const auto order_offset = numbers(builder, order);
  return schema::CreateLayout(builder, order_offset, structs(builder, blocks));
}

std::uint8_t number_of(const Placement& placement) {
  switch (placement.kind()) {
    case Placement::Kind::shard: return static_cast<std::uint8_t>(placement.dim());
    case Placement::Kind::partial: return static_cast<std::uint8_t>(placement.op());
    case Placement::Kind::replicate: break;
  }
  return 0;
}

Offset<schema::Spec> encode(FlatBufferBuilder& builder, const TensorSpec& spec) {
  const std::vector<std::int64_t> sizes(spec.shape.begin(), spec.shape.end());
  std::vector<schema::Placement> placements;
  for (const Placement& placement : spec.placements) {
    placements.emplace_back(static_cast<std::uint8_t>(placement.kind()), number_of(placement));
  }
  const auto shape = numbers(builder, sizes);
  const auto placement_offset = structs(builder, placements);
  const auto layout = encode(builder, spec.layout, spec.shape.rank());
  return schema::CreateSpec(builder, shape, static_cast<std::uint8_t>(spec.dtype), placement_offset,
                            layout, static_cast<std::uint8_t>(spec.space));
}

Offset<schema::Attribute> encode(FlatBufferBuilder& builder, const Attributes::Item& item) {
  using Kind = schema::AttributeKind;
  const auto name = builder.CreateString(item.first);
  return std::visit(
      [&](const auto& value) {
        using T = std::decay_t<decltype(value)>;
        if constexpr (std::is_same_v<T, std::int64_t>) {
          return schema::CreateAttribute(builder, name, Kind::integer, value);
        } else if constexpr (std::is_same_v<T, double>) {
          return schema::CreateAttribute(builder, name, Kind::number, 0, value);
        } else if constexpr (std::is_same_v<T, std::string>) {
          return schema::CreateAttribute(builder, name, Kind::text, 0, 0, text(builder, value));
        } else if constexpr (std::is_same_v<T, std::vector<std::int64_t>>) {
          return schema::CreateAttribute(builder, name, Kind::integers, 0, 0, {},
                                         numbers(builder, value));
        } else {
          return schema::CreateAttribute(builder, name, Kind::numbers, 0, 0, {}, {},
                                         numbers(builder, value));
        }
      },
      item.second);
}

Offset<schema::Op> encode(FlatBufferBuilder& builder, const ProgramOp& op) {
  std::vector<Offset<schema::Attribute>> attributes;
  for (const Attributes::Item& item : op.attributes.items()) {
    attributes.push_back(encode(builder, item));
  }
  std::vector<schema::Step> steps;
  for (const ExpressionStep& step : op.epilogue.steps) {
    steps.emplace_back(static_cast<std::uint8_t>(step.fn), step.arguments[0], step.arguments[1],
                       step.alpha, step.beta);
  }
  const auto name_of_op = text(builder, op.op);
  const auto attribute_offset = tables(builder, attributes);
  const auto epilogue = structs(builder, steps);
  const auto inputs = numbers(builder, op.inputs);
  const auto outputs = numbers(builder, op.outputs);
  const auto name = text(builder, op.name);
  const auto message = text(builder, op.message);
  const auto implementation = text(builder, op.implementation);
  return schema::CreateOp(builder, static_cast<std::uint8_t>(op.kind), name_of_op, attribute_offset,
                          epilogue, inputs, outputs, op.target, name, message, implementation,
                          op.limit);
}

Offset<schema::Value> encode(FlatBufferBuilder& builder, const ProgramValue& value) {
  const auto name = text(builder, value.name);
  const auto spec = encode(builder, value.spec);
  const auto reason = text(builder, value.reason);
  return schema::CreateValue(builder, name, spec, static_cast<std::uint8_t>(value.storage.kind),
                             value.storage.index, value.storage.offset, reason);
}

Offset<schema::Input> encode(FlatBufferBuilder& builder, const ProgramInput& input) {
  const auto name = builder.CreateString(input.name);
  return schema::CreateInput(builder, name, input.value, static_cast<std::uint8_t>(input.kind));
}

Offset<schema::Output> encode(FlatBufferBuilder& builder, const ProgramOutput& output) {
  const auto name = builder.CreateString(output.name);
  return schema::CreateOutput(builder, name, output.value, output.alias);
}

/// `encode_one(item)` for each item, as a list of tables.
template <class T, class Encode>
auto encode_all(FlatBufferBuilder& builder, const std::vector<T>& items, Encode encode_one) {
  std::vector<decltype(encode_one(items[0]))> offsets;
  offsets.reserve(items.size());
  for (const T& item : items) {
    offsets.push_back(encode_one(item));
  }
  return tables(builder, offsets);
}

Offset<schema::Program> encode(FlatBufferBuilder& builder, const Program& program) {
  const auto one = [&](const auto& item) {
    return encode(builder, item);
  };
  std::vector<schema::Constant> constants;
  for (const ProgramConstant& constant : program.constants) {
    constants.emplace_back(constant.offset, constant.bytes, constant.hash, constant.value);
  }
  const auto name = builder.CreateString(program.name);
  const auto mesh = builder.CreateVector(program.mesh.sizes().data(), program.mesh.sizes().size());
  const auto values = encode_all(builder, program.values, one);
  const auto inputs = encode_all(builder, program.inputs, one);
  const auto outputs = encode_all(builder, program.outputs, one);
  const auto constant_offset = structs(builder, constants);
  const auto ops = encode_all(builder, program.ops, one);
  return schema::CreateProgram(builder, name, mesh, values, inputs, outputs, constant_offset, ops,
                               program.dram_workspace_bytes, program.l1_workspace_bytes);
}

Offset<schema::Target> encode(FlatBufferBuilder& builder, const TargetInfo& target) {
  std::vector<Offset<flatbuffers::String>> features;
  for (const std::string& feature : target.features) {
    features.push_back(builder.CreateString(feature));
  }
  const auto backend = text(builder, target.backend);
  const auto processor = text(builder, target.processor);
  const auto feature_offset = tables(builder, features);
  return schema::CreateTarget(builder, backend, processor, feature_offset, target.cores,
                              target.threads_per_device, target.l1_bytes, target.dram_bytes,
                              target.l1d_cache_bytes, target.l2_cache_bytes, target.l3_cache_bytes,
                              target.memory_bytes, target.numa_nodes);
}

Offset<schema::MetadataEntry> encode(FlatBufferBuilder& builder,
                                     const std::pair<std::string, std::string>& entry) {
  const auto key = builder.CreateString(entry.first);
  return schema::CreateMetadataEntry(builder, key, text(builder, entry.second));
}

}  // namespace

std::vector<std::byte> encode_table(const std::vector<Program>& programs, const TargetInfo& target,
                                    const std::map<std::string, std::string>& metadata) {
  std::size_t expected = 4096;
  for (const Program& program : programs) {
    expected += estimate(program);
  }
  for (const auto& [key, value] : metadata) {
    expected += 64 + key.size() + value.size();
  }
  if (expected > kLargestTable) {
    throw Error(ErrorCode::unsupported,
                fmt::format("the programs need a table of about {} bytes, more than the {} that a "
                            "file can hold: put them into several files",
                            expected, kLargestTable));
  }
  FlatBufferBuilder builder(expected);
  const auto one = [&](const auto& item) {
    return encode(builder, item);
  };
  const auto program_offset = encode_all(builder, programs, one);
  const auto target_offset = encode(builder, target);
  const std::vector<std::pair<std::string, std::string>> entries(metadata.begin(), metadata.end());
  const auto metadata_offset = encode_all(builder, entries, one);
  builder.Finish(schema::CreateContents(builder, program_offset, target_offset, metadata_offset));
  const std::span<const std::byte> table =
      std::as_bytes(std::span(builder.GetBufferPointer(), builder.GetSize()));
  return {table.begin(), table.end()};
}

}  // namespace tilemesh
