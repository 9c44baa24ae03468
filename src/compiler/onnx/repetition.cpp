#include "compiler/onnx/repetition.hpp"

#include <algorithm>
#include <limits>

#include <fmt/format.h>

#include "tilemesh/base/math.hpp"

#include "compiler/onnx/importer.hpp"

namespace tilemesh::onnx_importer {
namespace {

// Nodes that a loop may become without asking: a few steps run faster without jumps, and constants
// of an iteration are known.
constexpr std::int64_t kSmallUnrolled = 512;
// Nodes that a loop may become where it can't be a loop of the program.
constexpr std::int64_t kMostUnrolled = std::int64_t{1} << 15;
constexpr std::int64_t kUnbounded = std::numeric_limits<std::int64_t>::max();

Shape rows_of(std::int64_t count, const Shape& row) {
  Dims sizes{count};
  for (const std::int64_t size : row)
    sizes.push_back(size);
  return Shape(sizes);
}

class Repeater {
 public:
  Repeater(Node& node, const Repetition& what) : node_(node), what_(what) {
    if (what.trips != kNoValue && node.is_constant(what.trips)) trips_ = known(what.trips);
    if (what.condition == kNoValue || node.is_constant(what.condition)) {
      begins_ = what.condition == kNoValue || known(what.condition) != 0;
    }
    if (begins_ == false) trips_ = 0;
    if (trips_ && *trips_ < 0) trips_ = 0;
  }

  std::vector<Value> run() {
    Importer& importer = node_.importer();
    const auto unroll = [&] {
      return this->unroll();
    };
    const auto loop = [&] {
      return this->loop();
    };
    if (trips_ && begins_ && nodes() <= kSmallUnrolled) {
      if (auto results = importer.attempt(unroll)) return *results;
    }
    if (trips_ && begins_ && nodes() <= kMostUnrolled) {
      if (auto results = importer.attempt(loop)) return *results;
      return this->unroll();
    }
    return this->loop();
  }

 private:
  std::int64_t known(Value value) const {
    return read_as<std::int64_t>(*node_.importer().graph()[value].constant).at(0);
  }

  // What unrolling would make; the bound if it is more than can be counted.
  std::int64_t nodes() const {
    const std::int64_t each = std::max<std::int64_t>(what_.body_nodes, 1);
    return *trips_ > kMostUnrolled / each ? kUnbounded : *trips_ * each;
  }

  Value number(std::int64_t value) {
    return node_.constant(make_constant<std::int64_t>(Shape{}, {value}));
  }
  Value truth() { return node_.scalar(DType::boolean, 1); }

  std::vector<Value> unroll() {
    std::vector<Value> carried = what_.initial;
    std::vector<std::vector<Value>> rows(what_.gathered);
    for (std::int64_t trip = 0; trip < *trips_; ++trip) {
      const std::vector<Value> results = checked(what_.body(number(trip), carried));
      for (std::size_t i = 0; i < carried.size(); ++i)
        carried[i] = results[1 + i];
      for (std::size_t i = 0; i < rows.size(); ++i)
        rows[i].push_back(results[1 + carried.size() + i]);
      if (std::ranges::find(results, kPoison) != results.end()) return poison();
      if (!node_.is_constant(results[0])) {
        node_.unsupported("whether it goes on is known only when it runs");
      }
      if (known(results[0]) == 0) break;
    }
    for (const std::vector<Value>& list : rows)
      carried.push_back(list.empty() ? empty_rows(static_cast<std::size_t>(&list - rows.data()))
                                     : stack(list));
    return carried;
  }

  std::vector<Value> poison() const {
    return std::vector<Value>(what_.initial.size() + what_.gathered, kPoison);
  }

  std::vector<Value> checked(std::vector<Value> results) const {
    const std::size_t wanted = 1 + what_.initial.size() + what_.gathered;
    if (results.size() == wanted) return results;
    throw Error(ErrorCode::invalid_file,
                fmt::format("its body gives {} results, {} are wanted: a condition, {} carried and "
                            "{} gathered values",
                            results.size(), wanted, what_.initial.size(), what_.gathered));
  }

  Value as_row(Value value) {
    require_tensor(value);
    return node_.reshape(value, rows_of(1, node_.shape(value)));
  }

  Value stack(const std::vector<Value>& values) {
    std::vector<Value> rows;
    for (const Value value : values)
      rows.push_back(as_row(value));
    return rows.size() == 1 ? rows[0] : node_.emit("concat", rows, {{"axis", std::int64_t{0}}});
  }

  // No iteration gives a row: the body is looked at for its type alone.
  Value empty_rows(std::size_t index) {
    const std::vector<Value> results = checked(what_.body(number(0), what_.initial));
    const Value like = results[1 + what_.initial.size() + index];
    if (like == kPoison) return kPoison;
    require_tensor(like);
    return node_.constant(filled(node_.dtype(like), rows_of(0, node_.shape(like)), 0));
  }

  void require_tensor(Value value) const {
    if (is_list(value)) node_.unsupported("it gathers sequences or carries them in a loop");
  }

  std::vector<Value> loop() {
    LoopStart start;
    start.condition = what_.condition == kNoValue ? truth() : what_.condition;
    start.limit = trips_ ? std::max<std::int64_t>(*trips_, 1) : kUnbounded;
    if (what_.trips != kNoValue) {
      start.trips = node_.cast(node_.reshape(what_.trips, {}), DType::i64);
      const Value some = node_.emit("greater", {start.trips, number(0)});
      start.condition = node_.emit("and", {node_.reshape(start.condition, {}), some});
    }
    start.initial = what_.initial;
    for (const Value value : start.initial)
      require_tensor(value);
    if (what_.gathered > 0 && !trips_) {
      node_.unsupported(
          "how much it gathers is known only when it runs: fix its trip count with --value, or "
          "let it carry a tensor of the largest size");
    }
    bool stops_early = false;
    std::vector<Value> results =
        node_.importer().loop(start, [&](Value iteration, const std::vector<Value>& carried) {
          return step(iteration, carried, stops_early);
        });
    if (std::ranges::find(results, kPoison) != results.end()) return poison();
    // Rows that no iteration has set have no meaning.
    if (stops_early || !begins_) {
      for (std::size_t i = 0; i < what_.gathered; ++i)
        node_.importer().set_counted(results[1 + what_.initial.size() + i], 0, results[0]);
    }
    results.erase(results.begin());
    return results;
  }

  LoopStep step(Value iteration, const std::vector<Value>& carried, bool& stops_early) {
    const std::vector<Value> results = checked(what_.body(iteration, carried));
    LoopStep step;
    step.condition = results[0];
    const auto middle = results.begin() + 1 + static_cast<std::ptrdiff_t>(carried.size());
    step.next.assign(results.begin() + 1, middle);
    if (std::ranges::find(results, kPoison) != results.end()) {
      step.next.assign(1, kPoison);
      return step;
    }
    for (const Value value : step.next)
      require_tensor(value);
    stops_early = !node_.is_constant(results[0]) || known(results[0]) == 0;
    for (auto row = middle; row != results.end(); ++row)
      step.more.push_back(gather_rows(iteration, *row));
    return step;
  }

  // A tensor of all iterations, of which each sets its own row.
  LoopStep::More gather_rows(Value iteration, Value value) {
    const Value row = as_row(value);
    const Shape shape = rows_of(*trips_, node_.shape(value));
    const Value place = node_.reshape(iteration, {1, 1});
    const Value empty = node_.expand(node_.scalar(node_.dtype(value), 0), shape);
    return {empty, [this, row, place](Value gathered) {
              return node_.emit("scatter_nd", {gathered, place, row});
            }};
  }

  Node& node_;
  const Repetition& what_;
  std::optional<std::int64_t> trips_;  // if that is known
  std::optional<bool> begins_;
};

}  // namespace

std::vector<Value> repeat(Node& node, const Repetition& repetition) {
  return Repeater(node, repetition).run();
}

}  // namespace tilemesh::onnx_importer
