#include <algorithm>
#include <map>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

/// ONNX TfIdfVectorizer 9 on integers: how often each of a set of n-grams is in a sequence
/// ([items] or [batch, items]), weighted.
namespace tilemesh::ops {
namespace {

using Integers = std::vector<std::int64_t>;

// Columns of the result, and gaps between the items of an n-gram.
constexpr std::int64_t kMost = std::int64_t{1} << 24;

/// `pool` holds the items of all 1-grams, then of all 2-grams and so on; the n-grams of n items
/// begin at starts[n - 1]. The k-th n-gram of the pool counts in column columns[k] and weighs
/// weights[k], or 1 where there are none.
void canonical_ngrams(AttributeForm& form) {
  form.choice("mode", {"TF", "IDF", "TFIDF"});
  form.integer("shortest", {.min = 1, .max = kMost});
  form.integer("longest", {.min = 1, .max = kMost});
  form.integer("max_skip", {.fallback = 0, .min = 0, .max = kMost});
  form.integer_list("pool");
  form.integer_list("starts", {.min = 0});
  form.integer_list("columns", {.min = 0, .max = kMost - 1});
  form.number_list("weights", true);
}

/// The n-grams of n items: their number, and their first item in the pool.
struct Group {
  std::int64_t n = 0, first = 0, count = 0;
};

/// The groups of a pool; throws if it doesn't come out even.
std::vector<Group> groups_of(const OpCall& call) {
  const Integers& starts = call.attributes.integers("starts");
  const std::int64_t size = std::ssize(call.attributes.integers("pool"));
  std::vector<Group> groups;
  for (std::size_t i = 0; i < starts.size(); ++i) {
    const std::int64_t end = i + 1 < starts.size() ? starts[i + 1] : size;
    const auto n = static_cast<std::int64_t>(i) + 1;
    if (starts[i] > end || end > size || (end - starts[i]) % n != 0) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("{}-grams from {} to {} don't fit a pool of {} items", n, starts[i],
                              end, size));
    }
    groups.push_back({n, starts[i], (end - starts[i]) / n});
  }
  return groups;
}

std::vector<OperandType> infer_ngrams(const OpCall& call) {
  require_type(call, 0, Types::index);
  const Shape& x = call.inputs[0].shape;
  if (x.rank() != 1 && x.rank() != 2) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("input 0 wants [items] or [batch, items], got {}", x.to_string()));
  }
  const Integers& columns = call.attributes.integers("columns");
  const std::vector<double>& weights = call.attributes.numbers("weights");
  std::int64_t count = 0;
  for (const Group& group : groups_of(call)) {
    count += group.count;
  }
  if (std::ssize(columns) != count || (!weights.empty() && weights.size() != columns.size())) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("{} n-grams want as many columns and weights, got {} and {}", count,
                            columns.size(), weights.size()));
  }
  const std::int64_t size = columns.empty() ? 0 : 1 + *std::ranges::max_element(columns);
  return {rows(DType::f32, x.rank() == 1 ? Shape{size} : Shape{x[0], size})};
}

/// The batch.
Factors ngram_factors(const OpCall& call) {
  FactorBuilder builder(call);
  if (call.inputs[0].shape.rank() == 2) builder.share(0, 0);
  return builder.build();
}

/// Where an n-gram counts.
class Pool {
 public:
  explicit Pool(const OpCall& call)
      : shortest_(call.attributes.integer("shortest")),
        longest_(call.attributes.integer("longest")),
        max_skip_(call.attributes.integer("max_skip")) {
    const Integers& pool = call.attributes.integers("pool");
    const Integers& columns = call.attributes.integers("columns");
    const std::vector<double>& weights = call.attributes.numbers("weights");
    std::size_t k = 0;
    for (const Group& group : groups_of(call)) {
      for (std::int64_t i = 0; i < group.count; ++i, ++k) {
        const auto first = pool.begin() + group.first + i * group.n;
        found_[Integers(first, first + group.n)] = {columns[k], weights.empty() ? 1 : weights[k]};
        most_ = std::max(most_, group.n);
      }
    }
  }

  struct Place {
    std::int64_t column = 0;
    double weight = 1;
  };

  /// Calls `visit` with the place of each n-gram of a sequence that is in the pool.
  template <class Visit>
  void each(const std::int64_t* items, std::int64_t count, const Visit& visit) const {
    Integers ngram;
    const std::int64_t longest = std::min({longest_, most_, count});
    for (std::int64_t step = 1; step <= std::min(max_skip_ + 1, count); ++step) {
      for (std::int64_t start = 0; start < count; ++start) {
        ngram.clear();
        for (std::int64_t n = 1; n <= longest; ++n) {
          const std::int64_t at = start + (n - 1) * step;
          if (at >= count) break;
          ngram.push_back(items[at]);
          // Single items have no gaps: they count once.
          if (n < shortest_ || (n == 1 && step > 1)) continue;
          const auto found = found_.find(ngram);
          if (found != found_.end()) visit(found->second);
        }
      }
      if (longest == 1) break;
    }
  }

 private:
  std::int64_t shortest_, longest_, max_skip_, most_ = 0;
  std::map<Integers, Place> found_;
};

void run_ngrams(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Pool pool(call);
  const std::string& mode = call.attributes.text("mode");
  const Shape& in = call.inputs[0].shape;
  const Shape& out = call.outputs[0].shape;
  const std::int64_t items = in[in.rank() - 1];
  const std::int64_t columns = out[out.rank() - 1];
  const Loaded<std::int64_t> x(inputs[0], call.inputs[0]);
  auto values = zeros<double>(out.element_count());
  for (std::int64_t row = 0; row < (in.rank() == 1 ? 1 : in[0]); ++row) {
    double* counts = values.data() + row * columns;
    pool.each(x.data() + row * items, items, [&](const Pool::Place& place) {
      double& count = counts[place.column];
      if (mode == "TF") ++count;
      if (mode == "IDF") count = place.weight;
      if (mode == "TFIDF") count += place.weight;
    });
  }
  store(values, call.outputs[0], outputs[0]);
}

constexpr OpDef kOps[] = {
    {.name = "ngram_counts",
     .canonical = canonical_ngrams,
     .infer = infer_ngrams,
     .factors = ngram_factors,
     .reference = run_ngrams},
};

}  // namespace

std::span<const OpDef> ngram_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
