#include <algorithm>
#include <cctype>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"
#include "tilemesh/base/math.hpp"

#include "attribute_form.hpp"
#include "elements.hpp"
#include "tables.hpp"

namespace tilemesh::ops {
namespace {

/// A dim's name: a letter, or kEllipsis + the dim's place counted from the ellipsis' end.
using Label = int;
constexpr Label kEllipsis = 256;

struct Equation {
  std::vector<std::vector<Label>> inputs;
  std::vector<Label> output;
  std::vector<Label> labels;        // all, the output's first
  std::vector<std::int64_t> sizes;  // of `labels`

  std::size_t place(Label label) const {
    return static_cast<std::size_t>(std::ranges::find(labels, label) - labels.begin());
  }
};

[[noreturn]] void reject(const OpCall& call, const std::string& why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("equation \"{}\" {}", call.attributes.text("equation"), why));
}

/// The labels of one term; an ellipsis stands for `dims` dims.
std::vector<Label> term_labels(const OpCall& call, std::string_view term, int dims) {
  std::vector<Label> labels;
  for (std::size_t i = 0; i < term.size(); ++i) {
    if (std::isalpha(static_cast<unsigned char>(term[i])) != 0) {
      labels.push_back(term[i]);
    } else if (term.substr(i, 3) == "...") {
      for (int k = dims - 1; k >= 0; --k) {
        labels.push_back(kEllipsis + k);
      }
      i += 2;
    } else {
      reject(call, fmt::format("has '{}' where a letter or ... is wanted", term[i]));
    }
  }
  return labels;
}

std::vector<std::string_view> split(std::string_view text, char at) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(at);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

/// How many dims the ellipsis of a term stands for, in an operand of that rank.
int ellipsis_dims(std::string_view term, int rank) {
  const std::size_t at = term.find("...");
  return at == std::string_view::npos ? 0 : std::max(0, rank - static_cast<int>(term.size()) + 3);
}

/// Without "->" the output has the ellipsis, then the letters that occur once, sorted.
std::vector<Label> implicit_output(const std::vector<std::vector<Label>>& inputs) {
  std::vector<Label> all;
  for (const std::vector<Label>& input : inputs) {
    all.insert(all.end(), input.begin(), input.end());
  }
  std::vector<Label> output;
  std::vector<Label> once;
  for (const Label label : all) {
    if (label >= kEllipsis && std::ranges::find(output, label) == output.end()) {
      output.push_back(label);
    } else if (label < kEllipsis && std::ranges::count(all, label) == 1) {
      once.push_back(label);
    }
  }
  std::ranges::sort(output, std::greater<>());
  std::ranges::sort(once);
  output.insert(output.end(), once.begin(), once.end());
  return output;
}

/// Learns the size of every label; dims of an ellipsis broadcast.
void add_sizes(const OpCall& call, Equation& equation) {
  for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
    const Shape& shape = call.inputs[i].shape;
    if (static_cast<int>(equation.inputs[i].size()) != shape.rank()) {
      reject(call, fmt::format("names {} dims of input {}, which is {}", equation.inputs[i].size(),
                               i, shape.to_string()));
    }
    for (int d = 0; d < shape.rank(); ++d) {
      const Label label = equation.inputs[i][static_cast<std::size_t>(d)];
      const std::size_t place = equation.place(label);
      if (place == equation.labels.size()) {
        equation.labels.push_back(label);
        equation.sizes.push_back(-1);
      }
      std::int64_t& size = equation.sizes[place];
      if (size == -1 || (label >= kEllipsis && size == 1)) {
        size = shape[d];
      } else if (size != shape[d] && !(label >= kEllipsis && shape[d] == 1)) {
        reject(call, fmt::format("gives one name to dims of {} and {} elements", size, shape[d]));
      }
    }
  }
}

Equation parse(const OpCall& call) {
  std::string text = call.attributes.text("equation");
  std::erase_if(text, [](char c) { return c == ' '; });
  const std::size_t arrow = text.find("->");
  const std::vector<std::string_view> terms = split(std::string_view(text).substr(0, arrow), ',');
  if (terms.size() != call.inputs.size()) {
    reject(call, fmt::format("has {} terms for {} inputs", terms.size(), call.inputs.size()));
  }
  Equation equation;
  int dims = 0;
  for (std::size_t i = 0; i < terms.size(); ++i) {
    const int own = ellipsis_dims(terms[i], call.inputs[i].shape.rank());
    equation.inputs.push_back(term_labels(call, terms[i], own));
    dims = std::max(dims, own);
  }
  equation.output = arrow == std::string::npos
                        ? implicit_output(equation.inputs)
                        : term_labels(call, std::string_view(text).substr(arrow + 2), dims);
  for (const Label label : equation.output) {
    if (equation.place(label) != equation.labels.size())
      reject(call, "repeats a dim in its output");
    equation.labels.push_back(label);
    equation.sizes.push_back(-1);
  }
  add_sizes(call, equation);
  if (std::ranges::find(equation.sizes, -1) != equation.sizes.end()) {
    reject(call, "has a dim in its output that no input has");
  }
  std::int64_t products = 1;
  for (const std::int64_t size : equation.sizes) {
    products = checked_mul(products, size);
  }
  return equation;
}

void einsum_form(AttributeForm& form) {
  form.text("equation");
}

std::vector<OperandType> infer_einsum(const OpCall& call) {
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    if (!has_input(call, i)) {
      throw Error(ErrorCode::invalid_argument, fmt::format("input {} must be given", i));
    }
    require_type(call, i, Types::number);
    require_same_type(call, 0, i);
  }
  const Equation equation = parse(call);
  const std::span<const std::int64_t> sizes(equation.sizes);
  return {rows(call.inputs[0].dtype, Shape(sizes.first(equation.output.size())))};
}

Factors einsum_factors(const OpCall& call) {
  const Equation equation = parse(call);
  FactorBuilder builder(call);
  for (std::size_t l = 0; l < equation.labels.size(); ++l) {
    const Label label = equation.labels[l];
    // A diagonal can't be cut along one of its dims.
    if (std::ranges::any_of(equation.inputs, [&](const std::vector<Label>& input) {
          return std::ranges::count(input, label) > 1;
        })) {
      continue;
    }
    const int factor = builder.add();
    if (l < equation.output.size()) builder.output(0, static_cast<int>(l), factor);
    for (std::size_t i = 0; i < equation.inputs.size(); ++i) {
      const auto at = std::ranges::find(equation.inputs[i], label);
      if (at == equation.inputs[i].end()) continue;
      const int dim = static_cast<int>(at - equation.inputs[i].begin());
      if (call.inputs[i].shape[dim] == equation.sizes[l]) builder.input(i, dim, factor);
    }
  }
  return builder.build();
}

/// For one input the step in elements along every label: 0 where it lacks the label or repeats.
std::vector<std::int64_t> label_strides(const OpCall& call, const Equation& equation,
                                        std::size_t input) {
  std::vector<std::int64_t> strides(equation.labels.size());
  const Dims own = row_major_strides(call.inputs[input].shape);
  for (std::size_t d = 0; d < own.size(); ++d) {
    const std::size_t place = equation.place(equation.inputs[input][d]);
    if (call.inputs[input].shape[static_cast<int>(d)] == equation.sizes[place]) {
      strides[place] += own[d];  // a diagonal steps along both of its dims
    }
  }
  return strides;
}

template <class T>
void einsum(const OpCall& call, Inputs inputs, Outputs outputs) {
  const Equation equation = parse(call);
  std::vector<Loaded<T>> operands;
  std::vector<std::vector<std::int64_t>> strides;
  for (std::size_t i = 0; i < call.inputs.size(); ++i) {
    operands.emplace_back(inputs[i], call.inputs[i]);
    strides.push_back(label_strides(call, equation, i));
  }
  std::vector<Sum<T>> sums(static_cast<std::size_t>(call.outputs[0].shape.element_count()));
  // The labels are the output's, then the summed ones: a walk over them, the last one fastest.
  std::int64_t steps = 1;
  for (std::size_t l = equation.output.size(); l < equation.labels.size(); ++l) {
    steps *= equation.sizes[l];
  }
  std::vector<std::int64_t> index(equation.labels.size());
  std::vector<std::int64_t> offsets(operands.size());
  for (Sum<T>& sum : sums) {
    for (std::int64_t step = 0; step < steps; ++step) {
      Sum<T> product{1};
      for (std::size_t i = 0; i < operands.size(); ++i) {
        product *= static_cast<Sum<T>>(operands[i][offsets[i]]);
      }
      sum += product;
      for (std::size_t l = index.size(); l-- > 0;) {
        const bool wraps = ++index[l] == equation.sizes[l];
        if (wraps) index[l] = 0;
        for (std::size_t i = 0; i < operands.size(); ++i) {
          offsets[i] += wraps ? -(equation.sizes[l] - 1) * strides[i][l] : strides[i][l];
        }
        if (!wraps) break;
      }
    }
  }
  std::vector<T> values(sums.size());
  std::ranges::transform(sums, values.begin(), [](Sum<T> sum) { return static_cast<T>(sum); });
  store(values, call.outputs[0], outputs[0]);
}

void run_einsum(const OpCall& call, Inputs inputs, Outputs outputs) {
  visit_product(call.inputs[0].dtype,
                [&](auto tag) { einsum<typename decltype(tag)::type>(call, inputs, outputs); });
}

constexpr OpDef kOps[] = {
    {.name = "einsum",
     .max_inputs = -1,
     .canonical = einsum_form,
     .infer = infer_einsum,
     .factors = einsum_factors,
     .reference = run_einsum,
     .partial = PartialRule::scales},
};

}  // namespace

std::span<const OpDef> einsum_ops() {
  return kOps;
}

}  // namespace tilemesh::ops
