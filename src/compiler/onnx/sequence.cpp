#include <algorithm>

#include <onnx/onnx_pb.h>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/importer.hpp"
#include "compiler/onnx/tensor.hpp"

/// Sequences and optionals: what they hold is known when the model is imported, so that they become
/// the tensors in them.
namespace tilemesh::onnx_importer {
namespace {

const ValueList& list_of(Node& node, int i) {
  const Value value = node.in(i);
  if (!is_list(value)) node.invalid(fmt::format("its input {} must be a sequence", i));
  const ValueList& list = node.importer().list(value);
  if (list.is_none) node.invalid(fmt::format("its input {} is an optional without an element", i));
  return list;
}

void set_list(Node& node, std::vector<Value> items) {
  node.set(0, node.importer().add_list({std::move(items), false}));
}

/// The number of an item; `end` is one past the last that may be named.
std::size_t position(Node& node, int input, std::size_t end) {
  const std::int64_t given = node.known_integer(input, "position");
  const auto count = static_cast<std::int64_t>(end);
  if (given < -count || given >= count) {
    node.invalid(fmt::format("its position {} is outside [{},{})", given, -count, count));
  }
  return static_cast<std::size_t>(given < 0 ? given + count : given);
}

void construct(Node& node) {
  for (int i = 0; i < node.input_count(); ++i)
    node.in(i);
  set_list(node, node.inputs());
}

void empty(Node& node) {
  set_list(node, {});
}

void insert(Node& node) {
  std::vector<Value> items = list_of(node, 0).items;
  // A position counts from the back as in a list of the old length, which has the end as one more.
  std::size_t at = items.size();
  if (node.has(2)) {
    const std::int64_t given = node.known_integer(2, "position");
    at = std::cmp_equal(given, items.size()) ? items.size() : position(node, 2, items.size());
  }
  items.insert(items.begin() + static_cast<std::ptrdiff_t>(at), node.in(1));
  set_list(node, std::move(items));
}

void erase(Node& node) {
  std::vector<Value> items = list_of(node, 0).items;
  if (items.empty()) node.invalid("there is nothing to erase in an empty sequence");
  const std::size_t at = node.has(1) ? position(node, 1, items.size()) : items.size() - 1;
  items.erase(items.begin() + static_cast<std::ptrdiff_t>(at));
  set_list(node, std::move(items));
}

void at(Node& node) {
  const ValueList list = list_of(node, 0);
  node.set(0, list.items[position(node, 1, list.items.size())]);
}

void length(Node& node) {
  const auto count = static_cast<std::int64_t>(list_of(node, 0).items.size());
  node.set(0, node.constant(make_constant<std::int64_t>(Shape{}, {count})));
}

/// Sizes of the parts along the axis; all one where nothing is said.
std::vector<std::int64_t> part_sizes(Node& node, std::int64_t size) {
  if (!node.has(1)) return std::vector<std::int64_t>(static_cast<std::size_t>(size), 1);
  std::vector<std::int64_t> sizes;
  if (node.rank(node.in(1)) > 0) return node.known_integers(1, "split");
  const std::int64_t each = node.known_integer(1, "split");
  if (each < 1) node.invalid(fmt::format("its split wants at least 1, not {}", each));
  for (std::int64_t begin = 0; begin < size; begin += each)
    sizes.push_back(std::min(each, size - begin));
  return sizes;
}

void split_to_sequence(Node& node) {
  const Value value = node.in(0);
  const Shape shape = node.shape(value);
  const std::int64_t axis = node.axis(0, shape.rank());
  const std::vector<std::int64_t> sizes = part_sizes(node, shape[static_cast<int>(axis)]);
  if (sizes.empty()) return set_list(node, {});
  std::vector<Value> parts = node.emit_many("split", {value}, {{"axis", axis}, {"sizes", sizes}},
                                            static_cast<int>(sizes.size()));
  if (!node.has(1) && node.integer("keepdims", 1) == 0) {
    Dims without;
    for (int d = 0; d < shape.rank(); ++d) {
      if (d != axis) without.push_back(shape[d]);
    }
    for (Value& part : parts)
      part = node.reshape(part, Shape(without));
  }
  set_list(node, std::move(parts));
}

void concat_from_sequence(Node& node) {
  std::vector<Value> items = list_of(node, 0).items;
  if (items.empty()) node.invalid("there is nothing to concatenate in an empty sequence");
  const bool is_new = node.integer("new_axis", 0) != 0;
  const int rank = node.rank(items[0]) + (is_new ? 1 : 0);
  const std::int64_t axis = node.normal_axis(node.required_integer("axis"), rank);
  if (is_new) {
    for (Value& item : items) {
      const Shape shape = node.shape(item);
      std::vector<std::int64_t> sizes(shape.begin(), shape.end());
      sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(axis), 1);
      item = node.reshape(item, Shape(std::span<const std::int64_t>(sizes)));
    }
  }
  node.set(0, items.size() == 1 ? items[0] : node.emit("concat", items, {{"axis", axis}}));
}

void map(Node& node) {
  const onnx::GraphProto& graph = node.graph("body");
  const std::size_t count = list_of(node, 0).items.size();
  std::vector<std::vector<Value>> results(static_cast<std::size_t>(graph.output_size()));
  for (std::size_t i = 0; i < count; ++i) {
    std::vector<Value> inputs;
    for (int k = 0; k < node.input_count(); ++k) {
      if (is_list(node.in(k)) && list_of(node, k).items.size() != count) {
        node.invalid(fmt::format("its input {} has {} elements, input 0 has {}", k,
                                 list_of(node, k).items.size(), count));
      }
      inputs.push_back(is_list(node.in(k)) ? list_of(node, k).items[i] : node.in(k));
    }
    const std::vector<Value> own = node.importer().inline_graph(graph, node.scope(), inputs);
    for (std::size_t r = 0; r < own.size(); ++r)
      results[r].push_back(own[r]);
  }
  for (int r = 0; r < std::min(node.output_count(), graph.output_size()); ++r) {
    std::vector<Value>& items = results[static_cast<std::size_t>(r)];
    const bool poisoned = std::ranges::find(items, kPoison) != items.end();
    node.set(r, poisoned ? kPoison : node.importer().add_list({std::move(items), false}));
  }
}

bool is_none(Node& node, Value value) {
  return is_list(value) && node.importer().list(value).is_none;
}

void optional(Node& node) {
  node.set(0, node.has(0) ? node.in(0) : node.importer().add_list({.items = {}, .is_none = true}));
}

void has_element(Node& node) {
  const bool has = node.has(0) && !is_none(node, node.in(0));
  node.set(0, node.scalar(DType::boolean, has ? 1 : 0));
}

void get_element(Node& node) {
  if (is_none(node, node.in(0))) node.invalid("the optional has no element");
  node.set(0, node.in(0));
}

constexpr OnnxOp kRows[] = {
    {.name = "ConcatFromSequence",
     .since = 11,
     .handler = concat_from_sequence,
     .takes_lists = true},
    {.name = "Optional", .since = 15, .handler = optional, .takes_lists = true},
    {.name = "OptionalGetElement", .since = 15, .handler = get_element, .takes_lists = true},
    {.name = "OptionalHasElement", .since = 15, .handler = has_element, .takes_lists = true},
    {.name = "SequenceAt", .since = 11, .handler = at, .values_needed = 0b10, .takes_lists = true},
    {.name = "SequenceConstruct", .since = 11, .handler = construct},
    {.name = "SequenceEmpty", .since = 11, .handler = empty},
    {.name = "SequenceErase",
     .since = 11,
     .handler = erase,
     .values_needed = 0b10,
     .takes_lists = true},
    {.name = "SequenceInsert",
     .since = 11,
     .handler = insert,
     .values_needed = 0b100,
     .takes_lists = true},
    {.name = "SequenceLength", .since = 11, .handler = length, .takes_lists = true},
    {.name = "SequenceMap", .since = 17, .handler = map, .takes_lists = true},
    {.name = "SplitToSequence", .since = 11, .handler = split_to_sequence, .values_needed = 0b10},
};

}  // namespace

std::span<const OnnxOp> sequence_rows() {
  return kRows;
}

}  // namespace tilemesh::onnx_importer
