#include "random_program.hpp"

#include <algorithm>
#include <optional>
#include <random>

namespace tilemesh::testing {

namespace {

using Value = ProgramBuilder::Value;
using Integers = std::vector<std::int64_t>;

/// A value with what one has to know to go on from it.
struct Live {
  Value value;
  DType dtype = DType::f32;
};

class Generator {
 public:
  explicit Generator(std::uint32_t seed) : random_(seed), builder_("random") {}

  RandomProgram run(int op_count, const MeshShape& mesh) {
    base_ = {size(), size(), size(), size()};
    const Dims whole(base_);
    add_input("x", DType::f32, Shape(whole));
    add_input("y", DType::f32, Shape(Dims{base_[2], base_[3]}));
    add_input("n", DType::i64, Shape(Dims{base_[0], base_[1]}));
    for (int i = 0; i < op_count; ++i)
      step();
    for (int i = 0, count = 1 + below(3); i < count; ++i) {
      const auto recent = std::min<std::size_t>(live_.size(), 5);
      const Live& out =
          live_[live_.size() - 1 - static_cast<std::size_t>(below(static_cast<int>(recent)))];
      builder_.output("out" + std::to_string(i), out.value);
    }
    result_.graph = builder_.build();
    result_.text = to_string(result_.graph);
    cut(mesh);
    return std::move(result_);
  }

 private:
  int below(int count) { return std::uniform_int_distribution<int>(0, count - 1)(random_); }
  bool one_in(int count) { return below(count) == 0; }
  std::int64_t size() {
    static constexpr std::int64_t kSizes[] = {1, 2, 3, 4, 5, 6, 7, 8, 12, 13};
    return kSizes[below(10)];
  }

  void add_input(const std::string& name, DType dtype, const Shape& shape) {
    live_.push_back({builder_.input(name, {.shape = shape, .dtype = dtype}), dtype});
    shapes_[name] = shape;
    const auto count = static_cast<std::size_t>(shape.element_count());
    if (dtype == DType::f32) {
      result_.inputs[name] = Tensor::adopt(floats(count), {.shape = shape});
    } else {
      std::vector<std::int64_t> values(count);
      for (std::int64_t& value : values)
        value = below(4);
      result_.inputs[name] = Tensor::adopt(std::move(values), {.shape = shape});
    }
  }

  std::vector<float> floats(std::size_t count) {
    std::uniform_real_distribution<float> real(-1, 1);
    std::vector<float> values(count);
    for (float& value : values)
      value = real(random_);
    return values;
  }
  Value weights(const Shape& shape) {
    return builder_.constant(floats(static_cast<std::size_t>(shape.element_count())), shape);
  }

  /// Mostly a recent one.
  std::optional<Live> pick(DType dtype, int least_rank = 0, int most_rank = 6) {
    std::vector<const Live*> fitting;
    for (const Live& one : live_) {
      const int rank = builder_.shape(one.value).rank();
      if (one.dtype == dtype && rank >= least_rank && rank <= most_rank) fitting.push_back(&one);
    }
    if (fitting.empty()) return std::nullopt;
    const auto count = static_cast<int>(fitting.size());
    const int back = one_in(3) ? below(count) : below(std::min(count, 3));
    return *fitting[static_cast<std::size_t>(count - 1 - back)];
  }

  std::vector<Value> add(std::string_view op, const std::vector<Value>& inputs,
                         Attributes attributes = {}, DType dtype = DType::f32, int outputs = 0) {
    const std::vector<Value> made = builder_.op(op, inputs, std::move(attributes), outputs);
    for (const Value value : made) {
      if (builder_.shape(value).element_count() <= 20000) live_.push_back({value, dtype});
    }
    return made;
  }

  void step() {
    using Step = void (Generator::*)();
    static constexpr Step kSteps[] = {
        &Generator::unary,     &Generator::binary,      &Generator::with_constant,
        &Generator::reshape,   &Generator::reshape,     &Generator::move,
        &Generator::move,      &Generator::product,     &Generator::product,
        &Generator::batched,   &Generator::convolution, &Generator::reduction,
        &Generator::reduction, &Generator::lanes,       &Generator::join,
        &Generator::integers,  &Generator::compare,     &Generator::gather,
        &Generator::recurrent, &Generator::einsum};
    (this->*kSteps[below(static_cast<int>(std::size(kSteps)))])();
  }

  void unary() {
    static constexpr std::string_view kOps[] = {"relu", "sigmoid", "tanh", "neg",
                                                "abs",  "erf",     "gelu"};
    add(kOps[below(7)], {pick(DType::f32)->value});
  }

  void binary() {
    static constexpr std::string_view kOps[] = {"add", "sub", "mul", "max", "min"};
    const std::optional<Live> a = pick(DType::f32);
    for (const Live& b : live_) {
      const bool fits =
          b.dtype == DType::f32 && builder_.shape(b.value) == builder_.shape(a->value);
      if (fits && one_in(2)) {
        add(kOps[below(5)], {a->value, b.value});
        return;
      }
    }
    add("add", {a->value, a->value});
  }

  void with_constant() {
    static constexpr std::string_view kOps[] = {"add", "mul", "sub", "max"};
    const Value x = pick(DType::f32)->value;
    Dims sizes = builder_.shape(x).sizes();
    for (auto& one : sizes) {
      if (one_in(2)) one = 1;
    }
    add(kOps[below(4)], {x, weights(Shape(sizes))});
  }

  // Splits a dim, merges two, adds or drops ones.
  void reshape() {
    const std::optional<Live> x = pick(one_in(4) ? DType::i64 : DType::f32, 1, 4);
    if (x == std::nullopt) return;
    const Shape shape = builder_.shape(x->value);
    Integers sizes(shape.begin(), shape.end());
    const auto d = static_cast<std::size_t>(below(shape.rank()));
    switch (below(4)) {
      case 0:
        for (const std::int64_t part : {2, 3, 4}) {
          if (sizes[d] % part == 0 && sizes[d] > part) {
            sizes[d] /= part;
            const auto at = sizes.begin() + static_cast<std::ptrdiff_t>(d);
            sizes.insert(one_in(2) ? at : at + 1, part);
            break;
          }
        }
        break;
      case 1:
        if (d + 1 < sizes.size()) {
          sizes[d] *= sizes[d + 1];
          sizes.erase(sizes.begin() + static_cast<std::ptrdiff_t>(d) + 1);
        }
        break;
      case 2: sizes.insert(sizes.begin() + static_cast<std::ptrdiff_t>(d), 1); break;
      default: std::erase(sizes, 1); break;
    }
    add("reshape", {x->value}, {{"shape", sizes}}, x->dtype);
  }

  void move() {
    const std::optional<Live> x = pick(one_in(4) ? DType::i64 : DType::f32, 1);
    if (x == std::nullopt) return;
    const Shape shape = builder_.shape(x->value);
    const int rank = shape.rank();
    const int axis = below(rank);
    switch (below(5)) {
      case 0: {
        Integers order;
        for (int d = 0; d < rank; ++d)
          order.push_back(d);
        std::ranges::shuffle(order, random_);
        add("transpose", {x->value}, {{"order", order}}, x->dtype);
        return;
      }
      case 1: {
        const std::int64_t end = 1 + below(static_cast<int>(shape[axis]));
        const std::int64_t start = below(static_cast<int>(end));
        add("slice", {x->value},
            {{"starts", Integers{start}},
             {"ends", Integers{end}},
             {"axes", Integers{axis}},
             {"steps", Integers{1}}},
            x->dtype);
        return;
      }
      case 2: {
        if (shape[axis] < 2) return;
        const std::int64_t first = 1 + below(static_cast<int>(shape[axis]) - 1);
        add("split", {x->value},
            {{"axis", std::int64_t{axis}}, {"sizes", Integers{first, shape[axis] - first}}},
            x->dtype, 2);
        return;
      }
      case 3: {
        Integers pads(static_cast<std::size_t>(2 * rank), 0);
        pads[static_cast<std::size_t>(axis)] = below(2);
        pads[static_cast<std::size_t>(rank + axis)] = 1;
        add("pad", {x->value}, {{"pads", pads}, {"mode", std::string("constant")}}, x->dtype);
        return;
      }
      default: {
        Integers sizes(shape.begin(), shape.end());
        sizes.insert(sizes.begin(), 1 + below(3));
        if (rank < 4) add("expand", {x->value}, {{"shape", sizes}}, x->dtype);
        return;
      }
    }
  }

  void product() {
    const std::optional<Live> x = pick(DType::f32, 2);
    if (x == std::nullopt) return;
    const Shape shape = builder_.shape(x->value);
    const std::int64_t k = shape[shape.rank() - 1];
    // A chain of two is what tensor parallelism is about.
    const std::int64_t middle = one_in(2) ? 4 * (1 + below(3)) : size();
    const Value h = add("matmul", {x->value, weights({k, middle})})[0];
    if (one_in(2)) return;
    const Value activated = add("gelu", {add("add", {h, weights({middle})})[0]})[0];
    add("matmul", {activated, weights({middle, size()})});
  }

  // Of a value with itself, as attention does; bounded, since softmax makes much of small errors in
  // large scores.
  void batched() {
    const std::optional<Live> x = pick(DType::f32, 2, 4);
    if (x == std::nullopt) return;
    const Value v = add("tanh", {x->value})[0];
    const Value scores = add("matmul", {v, v}, {{"transpose_b", std::int64_t{1}}})[0];
    const int rank = builder_.shape(scores).rank();
    const Value share = add("softmax", {scores}, {{"axis", std::int64_t{rank - 1}}})[0];
    add("matmul", {share, v});
  }

  void convolution() {
    const std::optional<Live> x = pick(DType::f32, 4, 4);
    if (x == std::nullopt) return;
    const Shape shape = builder_.shape(x->value);
    const std::int64_t filters = size();
    const bool wide = one_in(2);
    std::vector<Value> inputs{x->value, weights({filters, shape[1], wide ? 3 : 1, wide ? 3 : 1})};
    if (one_in(2)) inputs.push_back(weights({filters}));
    Attributes attributes;
    if (wide) attributes.set("pads", Integers{1, 1, 1, 1});
    const Value y = add("conv", inputs, std::move(attributes))[0];
    if (one_in(3)) {
      add("max_pool", {y}, {{"kernel", Integers{2, 2}}, {"pads", Integers{1, 1, 0, 0}}});
    }
    if (one_in(3)) add("global_average_pool", {y});
  }

  void reduction() {
    static constexpr std::string_view kOps[] = {"reduce_sum", "reduce_mean", "reduce_max",
                                                "reduce_min", "reduce_prod", "reduce_l1"};
    const std::optional<Live> x = pick(DType::f32, 1);
    if (x == std::nullopt) return;
    const int rank = builder_.shape(x->value).rank();
    Integers axes{below(rank)};
    if (one_in(3)) axes = {};
    const Value y =
        add(kOps[below(6)], {x->value}, {{"axes", axes}, {"keepdims", std::int64_t{below(2)}}})[0];
    if (one_in(2)) add("tanh", {y});
  }

  void lanes() {
    const std::optional<Live> x = pick(DType::f32, 1);
    if (x == std::nullopt) return;
    const Shape shape = builder_.shape(x->value);
    const std::int64_t axis = below(shape.rank());
    switch (below(4)) {
      case 0: add("softmax", {x->value}, {{"axis", axis}}); return;
      case 1: {
        const int last = shape.rank() - 1;
        add("layer_normalization", {x->value, weights({shape[last]}), weights({shape[last]})},
            {{"axis", std::int64_t{last}}, {"epsilon", 1e-3}});
        return;
      }
      case 2: add("cum_sum", {x->value}, {{"axis", axis}}); return;
      default:
        // Of what no rounding has touched: else near ties fall either way.
        add("arg_max", {live_[0].value},
            {{"axis", std::int64_t{below(4)}}, {"keepdims", std::int64_t{below(2)}}}, DType::i64);
        return;
    }
  }

  void join() {
    const std::optional<Live> a = pick(DType::f32, 1);
    if (a == std::nullopt) return;
    const std::int64_t axis = below(builder_.shape(a->value).rank());
    add("concat", {a->value, add("tanh", {a->value})[0]}, {{"axis", axis}});
  }

  void integers() {
    const std::optional<Live> n = pick(DType::i64);
    const std::vector<std::int64_t> three{3};
    const Value c = builder_.constant(three, Shape{1});
    switch (below(5)) {
      case 0: add("add", {n->value, c}, {}, DType::i64); return;
      case 1: add("div", {n->value, c}, {}, DType::i64); return;
      case 2: add("mod", {n->value, c}, {}, DType::i64); return;
      case 3:
        add("tanh", {add("cast", {n->value}, {{"to", static_cast<std::int64_t>(DType::f32)}})[0]});
        return;
      default: {
        // What is made of it stays above zero.
        const Value positive =
            add("add", {add("mul", {n->value, n->value}, {}, DType::i64)[0], c}, {}, DType::i64)[0];
        add("div", {n->value, positive}, {}, DType::i64);
        return;
      }
    }
  }

  void compare() {
    const std::optional<Live> x = pick(DType::f32);
    const Value zero = weights(Shape{});
    const Value flags = builder_.op("less", {x->value, zero})[0];
    add("where", {flags, x->value, add("neg", {x->value})[0]});
  }

  // Rows of a table, by numbers that are sure to be inside.
  void gather() {
    const std::optional<Live> n = pick(DType::i64, 0, 3);
    const std::vector<std::int64_t> four{4};
    const Value rows = builder_.constant(four, Shape{1});
    const Value squared = add("mul", {n->value, n->value}, {}, DType::i64)[0];
    const Value inside = add("mod", {squared, rows}, {}, DType::i64)[0];
    add("gather", {weights({4, size()}), inside}, {{"axis", std::int64_t{0}}});
  }

  void recurrent() {
    const std::optional<Live> x = pick(DType::f32, 3, 3);
    if (x == std::nullopt) return;
    const std::int64_t features = builder_.shape(x->value)[2];
    const std::int64_t hidden = 1 + below(4);
    add("lstm", {x->value, weights({1, 4 * hidden, features}), weights({1, 4 * hidden, hidden})},
        {{"hidden_size", hidden},
         {"direction", std::string("forward")},
         {"activations", std::string("sigmoid,tanh,tanh")}},
        DType::f32, 3);
  }

  void einsum() {
    const std::optional<Live> x = pick(DType::f32, 2, 2);
    if (x == std::nullopt) return;
    const Shape shape = builder_.shape(x->value);
    add("einsum", {x->value, weights({shape[0], size()})},
        {{"equation", std::string("ij,ik->kj")}});
  }

  void cut(const MeshShape& mesh) {
    for (const auto& [name, shape] : shapes_) {
      for (int axis = 0; axis < mesh.axes(); ++axis) {
        if (mesh[axis] > 1 && !one_in(3)) {
          const int dim = below(shape.rank());
          result_.rules.push_back({name, dim, axis});
          result_.text +=
              "--shard " + name + "=" + std::to_string(dim) + "@" + std::to_string(axis) + "\n";
        }
      }
    }
  }

  std::mt19937 random_;
  ProgramBuilder builder_;
  Dims base_;
  std::vector<Live> live_;
  std::map<std::string, Shape> shapes_;
  RandomProgram result_;
};

}  // namespace

RandomProgram random_program(std::uint32_t seed, int op_count, const MeshShape& mesh) {
  return Generator(seed).run(op_count, mesh);
}

}  // namespace tilemesh::testing
