#include <algorithm>
#include <cstring>
#include <limits>

#include <flatbuffers/flatbuffers.h>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "codec.hpp"
#include "tilemesh_generated.h"

namespace tilemesh {
namespace {

using flatbuffers::Offset;
using flatbuffers::Vector;

constexpr int kMaxDepth = 16;
// A table of the file takes so many times its bytes in memory at most: an honest one less.
constexpr std::size_t kGrowth = 8;
constexpr std::size_t kSmallestTable = 8;
// Many times what any op has; looking one up among them stays cheap.
constexpr std::size_t kMaxAttributes = 256;

[[noreturn]] void broken(const std::string& what) {
  throw Error(ErrorCode::invalid_file, what);
}

/// Reads a verified table into plain structs.
class Reader {
 public:
  explicit Reader(std::size_t table_bytes) : left_(table_bytes) {}

  TableContents contents(const schema::Contents& table);

 private:
  /// Every byte read is paid for out of the table's size. Our writer never lets two fields point to
  /// the same bytes, so an honest file can pay; one that points a million times to one large vector
  /// can't.
  void spend(std::size_t bytes) {
    if (bytes > left_) {
      broken("fields of the table share bytes: the file is damaged");
    }
    left_ -= bytes;
  }

  std::string text(const flatbuffers::String* string) {
    if (string == nullptr) {
      return {};
    }
    spend(string->size());
    return string->str();
  }

  // The verifier doesn't see to the alignment of elements: they are copied as bytes.
  template <class T>
  std::vector<T> copy_elements(const std::uint8_t* data, std::size_t count) {
    spend(count * sizeof(T));
    std::vector<T> result(count);
    if (count > 0) {
      std::memcpy(result.data(), data, count * sizeof(T));
    }
    return result;
  }

  template <class T>
  std::vector<T> numbers(const Vector<T>* values) {
    return values == nullptr ? std::vector<T>() : copy_elements<T>(values->Data(), values->size());
  }

  template <class T>
  std::vector<T> structs(const Vector<const T*>* items) {
    return items == nullptr ? std::vector<T>() : copy_elements<T>(items->Data(), items->size());
  }

  /// `read(table)` for each table of a list. Tables that are one in the file are many in memory, so
  /// each is paid for by what becomes of it.
  template <class T, class Read>
  auto each(const Vector<Offset<T>>* items, Read read) {
    using Result = decltype(read(*items->Get(0)));
    std::vector<Result> result;
    if (items != nullptr) {
      spend(items->size() * (sizeof(flatbuffers::uoffset_t) + sizeof(Result) / kGrowth));
      result.reserve(items->size());
      for (const T* item : *items) {
        result.push_back(read(*item));
      }
    }
    return result;
  }

  Layout layout(const schema::Layout& table);
  TensorSpec spec(const schema::Spec& table, const MeshShape& mesh);
  ProgramValue value(const schema::Value& table, const MeshShape& mesh);
  Attributes attributes(const Vector<Offset<schema::Attribute>>* items);
  AttributeValue attribute_value(const schema::Attribute& table);
  Expression expression(const Vector<const schema::Step*>* items);
  ProgramOp op(const schema::Op& table);
  Program program(const schema::Program& table);
  TargetInfo target(const schema::Target& table);

  std::size_t left_;
};

/// A number of the file as an enumerator; `last` is the largest one.
template <class Enum>
Enum enumerator(std::uint8_t number, Enum last, std::string_view what) {
  if (number > static_cast<std::uint8_t>(last)) {
    broken(fmt::format("{} is no {}; the largest is {}", number, what,
                       static_cast<std::uint8_t>(last)));
  }
  return static_cast<Enum>(number);
}

Placement placement(const schema::Placement& item) {
  switch (enumerator(item.kind(), Placement::Kind::partial, "kind of placement")) {
    case Placement::Kind::shard: return shard(item.value());
    case Placement::Kind::partial:
      return partial(enumerator(item.value(), ReduceOp::prod, "reduction"));
    case Placement::Kind::replicate: break;
  }
  return replicate();
}

Layout Reader::layout(const schema::Layout& table) {
  if (const schema::Opaque* opaque = table.opaque()) {
    return Layout::opaque({text(opaque->backend()), text(opaque->tag()), opaque->bytes()});
  }
  const std::vector<std::int8_t> order = numbers(table.order());
  Layout::Blocks blocks;
  for (const schema::Block& block : structs(table.blocks())) {
    blocks.push_back({block.dim(), block.size()});
  }
  return {Layout::Order(order.begin(), order.end()), blocks};
}

TensorSpec Reader::spec(const schema::Spec& table, const MeshShape& mesh) {
  TensorSpec result;
  result.shape = Shape(std::span<const std::int64_t>(numbers(table.shape())));
  result.dtype = enumerator(table.dtype(), static_cast<DType>(kDTypeCount - 1), "dtype");
  for (const schema::Placement& item : structs(table.placements())) {
    result.placements.push_back(placement(item));
  }
  if (table.layout() != nullptr) {
    result.layout = layout(*table.layout());
  }
  result.space = enumerator(table.space(), Space::l1, "memory space");
  result.mesh = mesh;
  return result;
}

ProgramValue Reader::value(const schema::Value& table, const MeshShape& mesh) {
  ProgramValue result;
  result.name = text(table.name());
  try {
    result.spec = spec(*table.spec(), mesh);
  } catch (const Error& error) {
    throw error.in(fmt::format("value \"{}\"", result.name));
  }
  result.storage.kind = enumerator(table.storage(), Storage::Kind::none, "kind of storage");
  result.storage.index = table.index();
  result.storage.offset = table.offset();
  result.reason = text(table.reason());
  return result;
}

AttributeValue Reader::attribute_value(const schema::Attribute& table) {
  switch (table.kind()) {
    case schema::AttributeKind::integer: return table.integer();
    case schema::AttributeKind::number: return table.number();
    case schema::AttributeKind::text: return text(table.text());
    case schema::AttributeKind::integers: return numbers(table.integers());
    case schema::AttributeKind::numbers: return numbers(table.numbers());
  }
  broken(fmt::format("{} is no kind of attribute", static_cast<int>(table.kind())));
}

Attributes Reader::attributes(const Vector<Offset<schema::Attribute>>* items) {
  if (items != nullptr && items->size() > kMaxAttributes) {
    broken(fmt::format("an op has {} attributes, the most is {}", items->size(), kMaxAttributes));
  }
  Attributes result;
  each(items, [&](const schema::Attribute& item) {
    const std::string name = text(item.name());
    if (result.has(name)) {
      broken(fmt::format("attribute \"{}\" is there twice", name));
    }
    result.set(name, attribute_value(item));
    return 0;
  });
  return result;
}

Expression Reader::expression(const Vector<const schema::Step*>* items) {
  Expression result;
  for (const schema::Step& item : structs(items)) {
    ExpressionStep step;
    step.fn = static_cast<ScalarFn>(item.fn());  // verify_ops checks it
    step.arguments = {item.first(), item.second()};
    step.alpha = item.alpha();
    step.beta = item.beta();
    result.steps.push_back(step);
  }
  return result;
}

ProgramOp Reader::op(const schema::Op& table) {
  ProgramOp result;
  result.kind = enumerator(table.kind(), ProgramOp::Kind::repeat, "kind of op");
  result.op = text(table.op());
  result.attributes = attributes(table.attributes());
  result.epilogue = expression(table.epilogue());
  result.inputs = numbers(table.inputs());
  result.outputs = numbers(table.outputs());
  result.target = table.target();
  result.limit = table.limit();
  result.name = text(table.name());
  result.message = text(table.message());
  result.implementation = text(table.implementation());
  return result;
}

Program Reader::program(const schema::Program& table) {
  Program result;
  result.name = text(table.name());
  try {
    const std::vector<std::int32_t> sizes = numbers(table.mesh());
    result.mesh = MeshShape(std::span<const std::int32_t>(sizes));
    result.values =
        each(table.values(), [&](const schema::Value& item) { return value(item, result.mesh); });
    result.inputs = each(table.inputs(), [&](const schema::Input& item) {
      return ProgramInput{text(item.name()), item.value(),
                          enumerator(item.kind(), InputKind::state, "kind of input")};
    });
    result.outputs = each(table.outputs(), [&](const schema::Output& item) {
      return ProgramOutput{text(item.name()), item.value(), item.alias()};
    });
    for (const schema::Constant& item : structs(table.constants())) {
      result.constants.push_back({item.value(), item.offset(), item.bytes(), item.hash()});
    }
    result.ops = each(table.ops(), [&](const schema::Op& item) { return op(item); });
  } catch (const Error& error) {
    throw error.in(fmt::format("program \"{}\"", result.name));
  }
  result.dram_workspace_bytes = table.dram_workspace_bytes();
  result.l1_workspace_bytes = table.l1_workspace_bytes();
  return result;
}

TargetInfo Reader::target(const schema::Target& table) {
  TargetInfo result;
  result.backend = text(table.backend());
  result.processor = text(table.processor());
  if (const auto* features = table.features()) {
    spend(features->size() * sizeof(flatbuffers::uoffset_t));
    for (const flatbuffers::String* feature : *features) {
      result.features.push_back(text(feature));
    }
  }
  result.cores = table.cores();
  result.threads_per_device = table.threads_per_device();
  result.l1_bytes = table.l1_bytes();
  result.dram_bytes = table.dram_bytes();
  result.l1d_cache_bytes = table.l1d_cache_bytes();
  result.l2_cache_bytes = table.l2_cache_bytes();
  result.l3_cache_bytes = table.l3_cache_bytes();
  result.memory_bytes = table.memory_bytes();
  result.numa_nodes = table.numa_nodes();
  return result;
}

TableContents Reader::contents(const schema::Contents& table) {
  TableContents result;
  result.programs =
      each(table.programs(), [&](const schema::Program& item) { return program(item); });
  if (table.target() != nullptr) {
    result.target = target(*table.target());
  }
  each(table.metadata(), [&](const schema::MetadataEntry& item) {
    const std::string key = text(item.key());
    if (!result.metadata.emplace(key, text(item.value())).second) {
      broken(fmt::format("metadata \"{}\" is there twice", key));
    }
    return 0;
  });
  return result;
}

}  // namespace

TableContents decode_table(std::span<const std::byte> table) {
  TILEMESH_CHECK(reinterpret_cast<std::uintptr_t>(table.data()) % 8 == 0,
                 "the table of a binary is not aligned");
  if (table.size() >= FLATBUFFERS_MAX_BUFFER_SIZE) {
    broken(fmt::format("the table has {} bytes, more than the format allows", table.size()));
  }
  const auto* bytes = reinterpret_cast<const std::uint8_t*>(table.data());
  const std::size_t max_tables =
      std::min<std::size_t>(table.size() / kSmallestTable + 1, std::numeric_limits<int>::max());
  flatbuffers::Verifier verifier(bytes, table.size(), kMaxDepth,
                                 static_cast<flatbuffers::uoffset_t>(max_tables));
  if (!schema::VerifyContentsBuffer(verifier)) {
    broken("the table's structure is broken: the file is damaged");
  }
  try {
    return Reader(table.size()).contents(*schema::GetContents(bytes));
  } catch (const Error& error) {
    // Shapes, layouts and meshes take wrong numbers for their caller's mistake.
    if (error.code() == ErrorCode::invalid_argument) {
      throw Error(ErrorCode::invalid_file, error.what());
    }
    throw;
  }
}

}  // namespace tilemesh
