#include <algorithm>
#include <cstring>
#include <optional>
#include <vector>

#include <fmt/format.h>

#include "compiler/passes/pass.hpp"
#include "compiler/passes/rewriter.hpp"

namespace tilemesh::passes {
namespace {

// Narrower products leave too much of a kernel's registers idle.
constexpr std::int64_t kFewestColumns = 32;

struct Product {
  const GraphNode* matmul = nullptr;
  GraphValueId bias = kNoValue;
  bool bias_first = false;
};

// x @ W, or x @ W + b, read by the split alone; W and b constants, W of one matrix and read here
// alone, so that it isn't stored twice.
std::optional<Product> product_before(const Rewriter& rewriter, const GraphNode& split) {
  Product product;
  product.matmul = rewriter.made_only_for(split, split.inputs[0], "matmul");
  if (product.matmul == nullptr) {
    const GraphNode* add = rewriter.made_only_for(split, split.inputs[0], "add");
    for (const std::size_t at : {std::size_t{0}, std::size_t{1}}) {
      if (add == nullptr || !rewriter.graph().is_constant(add->inputs[1 - at])) continue;
      product.matmul = rewriter.made_only_for(*add, add->inputs[at], "matmul");
      product.bias = add->inputs[1 - at];
      product.bias_first = at == 1;
      if (product.matmul != nullptr) break;
    }
  }
  if (product.matmul == nullptr) return std::nullopt;
  const GraphValueId weights = product.matmul->inputs[1];
  const bool is_matrix = rewriter.graph().is_constant(weights) &&
                         rewriter.type(weights).shape.rank() == 2 &&
                         rewriter.index().uses(weights) == 1;
  return is_matrix ? std::optional(product) : std::nullopt;
}

// Elements [begin, begin + size) of dim `dim`; all of a constant that broadcasts along it.
ConstantData slice(const ConstantData& data, int dim, std::int64_t begin, std::int64_t size) {
  if (dim < 0 || data.shape[dim] == 1) return data;
  Dims sizes = data.shape.sizes();
  sizes[static_cast<std::size_t>(dim)] = size;
  std::int64_t outer = 1;
  std::int64_t inner_bytes = size_of(data.dtype);
  for (int d = 0; d < data.shape.rank(); ++d) {
    if (d < dim) outer *= data.shape[d];
    if (d > dim) inner_bytes *= data.shape[d];
  }
  const std::int64_t row_bytes = data.shape[dim] * inner_bytes;
  const auto part_bytes = static_cast<std::size_t>(size * inner_bytes);
  std::vector<std::byte> bytes(static_cast<std::size_t>(outer) * part_bytes);
  for (std::int64_t row = 0; row < outer; ++row) {
    std::memcpy(bytes.data() + static_cast<std::size_t>(row) * part_bytes,
                data.bytes->data() + row * row_bytes + begin * inner_bytes, part_bytes);
  }
  return make_constant_bytes(data.dtype, Shape{sizes}, bytes);
}

GraphValueId part_of(Rewriter& rewriter, GraphValueId id, int dim, std::int64_t begin,
                     std::int64_t size) {
  const GraphValue& whole = rewriter.graph()[id];
  const std::string name = fmt::format("{}[{}:{}]", whole.name, begin, begin + size);
  return rewriter.constant(name, slice(*whole.constant, dim, begin, size));
}

bool split_product(Rewriter& rewriter, GraphNode& node) {
  if (node.def->name != "split" || !node.epilogue.empty()) return false;
  const Shape shape = rewriter.type(node.inputs[0]).shape;
  const std::int64_t axis = node.attributes.integer("axis");
  if (shape.rank() < 2 || axis != shape.rank() - 1) return false;
  const std::vector<std::int64_t> sizes = node.attributes.integers("sizes");
  if (std::ranges::any_of(sizes, [](std::int64_t size) { return size < kFewestColumns; })) {
    return false;
  }
  const std::optional<Product> product = product_before(rewriter, node);
  if (!product) return false;
  const GraphNode matmul = *product->matmul;
  const int columns_dim = matmul.attributes.integer("transpose_b") != 0 ? 0 : 1;
  std::int64_t begin = 0;
  for (std::size_t i = 0; i < sizes.size(); begin += sizes[i++]) {
    if (i >= node.outputs.size() || node.outputs[i] == kNoValue) continue;
    const std::int64_t size = sizes[i];
    const GraphValueId weights = part_of(rewriter, matmul.inputs[1], columns_dim, begin, size);
    GraphValueId value = rewriter.insert("matmul", {matmul.inputs[0], weights}, matmul.attributes);
    if (product->bias != kNoValue) {
      const int last = rewriter.type(product->bias).shape.rank() - 1;
      const GraphValueId bias = part_of(rewriter, product->bias, last, begin, size);
      value = rewriter.insert(
          "add", product->bias_first ? std::vector{bias, value} : std::vector{value, bias});
    }
    rewriter.replace(node.outputs[i], value);
  }
  return true;
}

}  // namespace

bool split_products(Graph& graph) {
  return rewrite(graph, split_product);
}

}  // namespace tilemesh::passes
