#include <algorithm>
#include <array>

#include "compiler/testing.hpp"

namespace tilemesh::testing {
namespace {

using Integers = std::vector<std::int64_t>;

// Grows a graph op by op from the values that there are. Values stay small: whatever could grow is
// followed by tanh now and then.
class Grower {
 public:
  explicit Grower(std::uint32_t seed) : random_(seed) {}

  Graph run(int op_count) {
    graph_.name = "random";
    add_input("x", DType::f32, {2, 3, 5, 4});
    add_input("y", DType::f32, {2, 3, 5, 4});
    add_input("w", DType::f32, {4, 4});
    add_input("flag", DType::boolean, {});
    add_input("n", DType::i64, {3, 2});
    std::vector<GraphValueId> live;
    for (const GraphInput& input : graph_.inputs)
      live.push_back(input.value);
    grow(graph_.body, live, op_count, 1);
    const int outputs = 1 + below(3);
    for (int i = 0; i < outputs; ++i) {
      const std::size_t recent = std::min<std::size_t>(live.size(), 6);
      const GraphValueId id =
          live[live.size() - 1 - static_cast<std::size_t>(below(static_cast<int>(recent)))];
      graph_.outputs.push_back({"out" + std::to_string(i), id, -1, Space::dram, {}});
    }
    return std::move(graph_);
  }

 private:
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  bool one_in(int count) { return below(count) == 0; }

  void add_input(const std::string& name, DType dtype, const Shape& shape) {
    const GraphValueId id = graph_.add_value(name, {dtype, shape, {}, true});
    graph_.inputs.push_back({name, id, InputKind::activation, Space::dram, {}});
  }

  const OperandType& type(GraphValueId id) const { return graph_[id].type; }

  template <class Wanted>
  GraphValueId pick(const std::vector<GraphValueId>& live, Wanted&& wanted) {
    std::vector<GraphValueId> fitting;
    std::ranges::copy_if(live, std::back_inserter(fitting), wanted);
    if (fitting.empty()) return kNoValue;
    // Mostly recent values, so that chains get long.
    const auto count = static_cast<int>(fitting.size());
    const int back = one_in(3) ? below(count) : below(std::min(count, 3));
    return fitting[static_cast<std::size_t>(count - 1 - back)];
  }

  GraphValueId pick_float(const std::vector<GraphValueId>& live) {
    return pick(live, [&](GraphValueId id) { return type(id).dtype == DType::f32; });
  }

  std::vector<GraphValueId> add(GraphBlock& block, std::string_view op,
                                std::vector<GraphValueId> inputs, Attributes attributes = {}) {
    GraphNode node;
    node.def = &get_op(op);
    node.attributes = std::move(attributes);
    node.inputs = std::move(inputs);
    node.name = std::string(op) + "_" + std::to_string(graph_.values.size());
    return graph_.append(block, std::move(node));
  }

  GraphValueId constant(const Shape& shape) {
    return graph_.add_constant("c", random_data(DType::f32, shape, random_));
  }

  void grow(GraphBlock& block, std::vector<GraphValueId>& live, int op_count, int depth) {
    for (int i = 0; i < op_count; ++i) {
      for (const GraphValueId id : step(block, live, depth))
        live.push_back(id);
    }
  }

  std::vector<GraphValueId> step(GraphBlock& block, const std::vector<GraphValueId>& live,
                                 int depth) {
    switch (below(13)) {
      case 0:
      case 1: return unary(block, pick_float(live));
      case 2: return binary(block, live);
      case 3: return with_constant(block, pick_float(live));
      case 4: return activation(block, pick_float(live));
      case 5: return movement(block, pick_float(live));
      case 6: return convolution(block, live);
      case 7: return product(block, live);
      case 8: return reduction(block, pick_float(live));
      case 9: return integers(block, live);
      case 11: return depth > 0 ? loop(block, live, depth) : unary(block, pick_float(live));
      case 10: return depth > 0 ? branch(block, live, depth) : unary(block, pick_float(live));
      default: return norm(block, pick_float(live));
    }
  }

  std::vector<GraphValueId> unary(GraphBlock& block, GraphValueId x) {
    static constexpr std::string_view kOps[] = {"relu", "sigmoid",  "tanh", "neg",
                                                "abs",  "identity", "erf",  "softsign"};
    return add(block, kOps[below(8)], {x});
  }

  std::vector<GraphValueId> binary(GraphBlock& block, const std::vector<GraphValueId>& live) {
    static constexpr std::string_view kOps[] = {"add", "sub", "mul", "max"};
    const GraphValueId a = pick_float(live);
    const GraphValueId b = pick(live, [&](GraphValueId id) {
      return type(id).dtype == DType::f32 && type(id).shape == type(a).shape;
    });
    return add(block, kOps[below(4)], {a, b});
  }

  std::vector<GraphValueId> with_constant(GraphBlock& block, GraphValueId x) {
    static constexpr std::string_view kOps[] = {"add", "sub", "mul", "min"};
    const Shape& shape = type(x).shape;
    Dims sizes = shape.sizes();
    for (auto& size : sizes) {
      if (!one_in(3)) size = 1;
    }
    const GraphValueId c = constant(one_in(2) ? Shape{} : Shape{sizes});
    return add(block, kOps[below(4)], one_in(2) ? std::vector{x, c} : std::vector{c, x});
  }

  GraphValueId scalar(float value) { return graph_.add_constant("s", floats({}, {value})); }

  // The forms in which exporters write activations.
  std::vector<GraphValueId> activation(GraphBlock& block, GraphValueId x) {
    const auto one = [&](std::string_view op, std::vector<GraphValueId> inputs,
                         Attributes attributes = {}) {
      return add(block, op, std::move(inputs), std::move(attributes))[0];
    };
    switch (below(4)) {
      case 0: return {one("mul", {x, one("sigmoid", {x})})};
      case 1: {
        const GraphValueId six =
            one("clip", {one("add", {x, scalar(3)})}, {{"min", 0.0}, {"max", 6.0}});
        return {one("div", {one("mul", {x, six}), scalar(6)})};
      }
      case 2:
        return {one("mul", {x, one("hard_sigmoid", {x}, {{"alpha", 1.0 / 6}, {"beta", 0.5}})})};
      default: {
        const GraphValueId erf = one("erf", {one("div", {x, scalar(1.41421356f)})});
        return {one("mul", {one("mul", {x, one("add", {erf, scalar(1)})}), scalar(0.5f)})};
      }
    }
  }

  std::vector<GraphValueId> movement(GraphBlock& block, GraphValueId x) {
    const Shape& shape = type(x).shape;
    const int rank = shape.rank();
    if (rank == 0) return add(block, "reshape", {x}, {{"shape", Integers{1, 1}}});
    Integers order(static_cast<std::size_t>(rank));
    for (int d = 0; d < rank; ++d)
      order[static_cast<std::size_t>(d)] = d;
    switch (below(4)) {
      case 0:
        std::ranges::shuffle(order, random_);
        return add(block, "transpose", {x}, {{"order", order}});
      case 1: return add(block, "reshape", {x}, {{"shape", Integers{shape.element_count()}}});
      case 2: {
        const std::int64_t last = shape[rank - 1];
        return add(block, "slice", {x},
                   {{"starts", Integers{0}},
                    {"ends", Integers{std::max<std::int64_t>(1, last - 1)}},
                    {"axes", Integers{rank - 1}},
                    {"steps", Integers{1}}});
      }
      default: return add(block, "concat", {x, x}, {{"axis", std::int64_t{rank - 1}}});
    }
  }

  std::vector<GraphValueId> convolution(GraphBlock& block, const std::vector<GraphValueId>& live) {
    const GraphValueId x = pick(live, [&](GraphValueId id) {
      return type(id).dtype == DType::f32 && type(id).shape.rank() == 4;
    });
    const std::int64_t channels = type(x).shape[1];
    const std::int64_t filters = 2 + below(5);
    std::vector<GraphValueId> inputs{x, constant({filters, channels, 1, 1})};
    if (one_in(2)) inputs.push_back(constant({filters}));
    return add(block, "conv", std::move(inputs));
  }

  std::vector<GraphValueId> product(GraphBlock& block, const std::vector<GraphValueId>& live) {
    const GraphValueId x = pick(live, [&](GraphValueId id) {
      return type(id).dtype == DType::f32 && type(id).shape.rank() >= 2;
    });
    const std::int64_t k = type(x).shape[type(x).shape.rank() - 1];
    const GraphValueId w =
        k == 4 && one_in(2) ? graph_.inputs[2].value : constant({k, 1 + below(5)});
    return add(block, "matmul", {x, w});
  }

  std::vector<GraphValueId> reduction(GraphBlock& block, GraphValueId x) {
    const int rank = type(x).shape.rank();
    if (rank == 0) return unary(block, x);
    if (one_in(3)) return add(block, "softmax", {x}, {{"axis", std::int64_t{rank - 1}}});
    return add(block, one_in(2) ? "reduce_mean" : "reduce_max", {x},
               {{"axes", Integers{below(rank)}}, {"keepdims", std::int64_t{below(2)}}});
  }

  std::vector<GraphValueId> integers(GraphBlock& block, const std::vector<GraphValueId>& live) {
    const GraphValueId n =
        pick(live, [&](GraphValueId id) { return type(id).dtype == DType::i64; });
    switch (below(3)) {
      case 0: return add(block, "add", {n, n});
      case 1: return add(block, "cast", {n}, {{"to", static_cast<std::int64_t>(DType::f32)}});
      default: return add(block, "equal", {n, n});
    }
  }

  std::vector<GraphValueId> norm(GraphBlock& block, GraphValueId x) {
    const Shape& shape = type(x).shape;
    if (shape.rank() < 2) return unary(block, x);
    const Shape channels{shape[1]};
    std::mt19937& random = random_;
    std::vector<float> variance(static_cast<std::size_t>(shape[1]));
    for (float& v : variance)
      v = 0.5f + std::uniform_real_distribution<float>(0, 1)(random);
    const GraphValueId var = graph_.add_constant("var", floats(channels, variance));
    return add(block, "batch_normalization",
               {x, constant(channels), constant(channels), constant(channels), var},
               {{"epsilon", 1e-3}});
  }

  std::vector<GraphValueId> branch(GraphBlock& block, const std::vector<GraphValueId>& live,
                                   int depth) {
    GraphNode node;
    node.kind = GraphNode::Kind::branch;
    node.name = "branch_" + std::to_string(graph_.values.size());
    node.inputs = {pick(live, [&](GraphValueId id) {
      return type(id).dtype == DType::boolean && type(id).shape.element_count() == 1;
    })};
    node.blocks = {std::make_shared<GraphBlock>(), std::make_shared<GraphBlock>()};
    std::vector<GraphValueId> inner = live;
    grow(*node.blocks[0], inner, 1 + below(4), depth - 1);
    const GraphValueId result = pick_float(inner);
    std::vector<GraphValueId> other = live;
    grow(*node.blocks[1], other, 1 + below(4), depth - 1);
    const GraphValueId second = pick(other, [&](GraphValueId id) {
      return type(id).dtype == DType::f32 && type(id).shape == type(result).shape;
    });
    node.blocks[0]->results = {result};
    node.blocks[1]->results = {second != kNoValue ? second : constant(type(result).shape)};
    return graph_.append(block, std::move(node));
  }

  // What is carried may change places, stay, come from outside or be made in the body.
  std::vector<GraphValueId> loop(GraphBlock& block, const std::vector<GraphValueId>& live,
                                 int depth) {
    GraphNode node;
    node.kind = GraphNode::Kind::loop;
    node.name = "loop_" + std::to_string(graph_.values.size());
    node.limit = 4;
    node.blocks = {std::make_shared<GraphBlock>()};
    GraphBlock& body = *node.blocks[0];
    const auto number = [&](std::int64_t value) {
      return graph_.add_constant("n", make_constant<std::int64_t>({value}, {}));
    };
    const auto any_flag = [&](const std::vector<GraphValueId>& from) {
      if (one_in(2))
        return graph_.add_constant("true", make_constant_bytes(DType::boolean, {}, kTrue));
      return pick(from, [&](GraphValueId id) {
        return type(id).dtype == DType::boolean && type(id).shape.element_count() == 1;
      });
    };
    node.inputs = {any_flag(live), number(1 + below(4)), number(0)};
    const int carried = 1 + below(3);
    const GraphValueId first = pick_float(live);
    for (int i = 0; i < carried; ++i) {
      const GraphValueId same = pick(live, [&](GraphValueId id) {
        return type(id).dtype == DType::f32 && type(id).shape == type(first).shape;
      });
      node.inputs.push_back(one_in(2) ? same : pick_float(live));
    }
    std::vector<GraphValueId> inner = live;
    for (std::size_t i = 2; i < node.inputs.size(); ++i) {
      OperandType carried_type = type(node.inputs[i]);
      body.parameters.push_back(graph_.add_value("p", std::move(carried_type)));
      if (i > 2) inner.push_back(body.parameters.back());
    }
    grow(body, inner, 1 + below(5), depth - 1);
    body.results = {any_flag(inner)};
    for (std::size_t i = 1; i < body.parameters.size(); ++i) {
      const OperandType wanted = type(body.parameters[i]);
      const GraphValueId next = pick(inner, [&](GraphValueId id) {
        return type(id).dtype == DType::f32 && type(id).shape == wanted.shape;
      });
      body.results.push_back(one_in(2) ? next : add(body, "tanh", {next})[0]);
    }
    std::vector<GraphValueId> outputs = graph_.append(block, std::move(node));
    outputs.erase(outputs.begin());  // integers among the live values are indices
    return outputs;
  }

  static constexpr std::array<std::byte, 1> kTrue = {std::byte{1}};
  std::mt19937 random_;
  Graph graph_;
};

}  // namespace

Graph random_graph(std::uint32_t seed, int op_count) {
  return Grower(seed).run(op_count);
}

}  // namespace tilemesh::testing
