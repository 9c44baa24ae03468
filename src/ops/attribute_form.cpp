#include "attribute_form.hpp"

#include <algorithm>
#include <cmath>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/error.hpp"

#include "support.hpp"

namespace tilemesh::ops {
namespace {

void check_range(std::string_view name, std::int64_t value, const IntegerRule& rule) {
  if (value >= rule.min && value <= rule.max) return;
  const bool has_max = rule.max != std::numeric_limits<std::int64_t>::max();
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants {}, got {}", name,
                          has_max ? fmt::format("{} to {}", rule.min, rule.max)
                                  : fmt::format("at least {}", rule.min),
                          value));
}

std::vector<std::int64_t> first_axes(std::size_t count) {
  std::vector<std::int64_t> axes(count);
  for (std::size_t d = 0; d < count; ++d) {
    axes[d] = static_cast<std::int64_t>(d);
  }
  return axes;
}

}  // namespace

int AttributeForm::rank(std::size_t index) const {
  return has_input(*call_, index) ? call_->inputs[index].shape.rank() : 0;
}

template <class T>
const T* AttributeForm::given(std::string_view name) const {
  return call_->attributes.has(name) ? &call_->attributes.get<T>(name) : nullptr;
}

template <class T>
T AttributeForm::given_or(std::string_view name, const std::optional<T>& fallback) const {
  if (const T* value = given<T>(name)) return *value;
  if (fallback) return *fallback;
  throw Error(ErrorCode::invalid_argument, fmt::format("attribute \"{}\" is missing", name));
}

template <class T>
T AttributeForm::keep(std::string_view name, T value) {
  form_.set(name, value);
  return value;
}

std::int64_t AttributeForm::integer(std::string_view name, const IntegerRule& rule) {
  const std::int64_t value = given_or<std::int64_t>(name, rule.fallback);
  check_range(name, value, rule);
  return keep(name, value);
}

bool AttributeForm::flag(std::string_view name, std::optional<bool> fallback) {
  IntegerRule rule{.min = 0, .max = 1};
  if (fallback) rule.fallback = *fallback ? 1 : 0;
  return integer(name, rule) == 1;
}

double AttributeForm::number(std::string_view name, std::optional<double> fallback) {
  const double value = given_or<double>(name, fallback);
  if (!std::isnan(value)) return keep(name, value);
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants a number, got NaN", name));
}

std::string AttributeForm::text(std::string_view name, std::optional<std::string_view> fallback) {
  std::optional<std::string> value;
  if (fallback) value = std::string(*fallback);
  return keep(name, given_or<std::string>(name, value));
}

std::string AttributeForm::choice(std::string_view name, std::span<const std::string_view> options,
                                  bool required) {
  using Fallback = std::optional<std::string_view>;
  std::string value = text(name, required ? Fallback() : Fallback(options.front()));
  if (std::ranges::find(options, value) != options.end()) return value;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants one of {}, got \"{}\"", name,
                          fmt::join(options, ", "), value));
}

DType AttributeForm::dtype(std::string_view name, std::optional<DType> fallback) {
  IntegerRule rule{.min = 0, .max = kDTypeCount - 1};
  if (fallback) rule.fallback = static_cast<std::int64_t>(*fallback);
  return static_cast<DType>(integer(name, rule));
}

int AttributeForm::axis(std::string_view name, int rank, std::optional<std::int64_t> fallback) {
  const int axis = normal_axis(given_or<std::int64_t>(name, fallback), rank, name);
  return static_cast<int>(keep(name, static_cast<std::int64_t>(axis)));
}

std::vector<std::int64_t> AttributeForm::axes(std::string_view name, int rank,
                                              std::optional<std::size_t> count, bool required) {
  const auto* values =
      required ? &call_->attributes.integers(name) : given<std::vector<std::int64_t>>(name);
  const bool is_missing = values == nullptr || (values->empty() && !required);
  const std::size_t wanted =
      count.value_or(is_missing ? static_cast<std::size_t>(rank) : values->size());
  std::vector<std::int64_t> axes = is_missing ? first_axes(wanted) : *values;
  if (axes.size() != wanted) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("attribute \"{}\" wants {} dims, got {}", name, wanted, axes.size()));
  }
  std::vector<bool> seen(static_cast<std::size_t>(rank));
  for (std::int64_t& axis : axes) {
    axis = normal_axis(axis, rank, name);
    if (seen[static_cast<std::size_t>(axis)]) {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("attribute \"{}\" names dim {} twice", name, axis));
    }
    seen[static_cast<std::size_t>(axis)] = true;
  }
  return keep(name, std::move(axes));
}

std::vector<std::int64_t> AttributeForm::integers(std::string_view name, std::size_t count,
                                                  const IntegerRule& rule) {
  std::vector<std::int64_t> values = integer_list(name, rule, rule.fallback.has_value());
  if (values.empty() && rule.fallback) values.assign(count, *rule.fallback);
  if (values.size() == count) return keep(name, std::move(values));
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants {} numbers, got {}", name, count, values.size()));
}

std::vector<std::int64_t> AttributeForm::integer_list(std::string_view name,
                                                      const IntegerRule& rule, bool optional) {
  using List = std::vector<std::int64_t>;
  List values = given_or<List>(name, optional ? std::optional<List>(List{}) : std::nullopt);
  for (const std::int64_t value : values) {
    check_range(name, value, rule);
  }
  return keep(name, std::move(values));
}

std::vector<double> AttributeForm::number_list(std::string_view name, bool optional) {
  using List = std::vector<double>;
  List values = given_or<List>(name, optional ? std::optional<List>(List{}) : std::nullopt);
  if (std::ranges::none_of(values, [](double value) { return std::isnan(value); })) {
    return keep(name, std::move(values));
  }
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants numbers, got NaN among them", name));
}

std::vector<double> AttributeForm::numbers(std::string_view name, std::vector<double> fallback) {
  const std::size_t count = fallback.size();
  std::vector<double> values = number_list(name, true);
  if (values.empty()) values = std::move(fallback);
  if (values.size() == count) return keep(name, std::move(values));
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants {} numbers, got {}", name, count, values.size()));
}

Attributes AttributeForm::take() {
  for (const auto& [name, value] : call_->attributes.items()) {
    if (form_.has(name)) continue;
    std::vector<std::string_view> known;
    for (const auto& item : form_.items()) {
      known.push_back(item.first);
    }
    throw Error(ErrorCode::invalid_argument,
                fmt::format("has no attribute \"{}\"; it has {}", name,
                            known.empty() ? "none" : fmt::format("{}", fmt::join(known, ", "))));
  }
  return std::move(form_);
}

}  // namespace tilemesh::ops
