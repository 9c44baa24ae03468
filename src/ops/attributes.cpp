#include "tilemesh/ops/attributes.hpp"

#include <algorithm>
#include <array>

#include <fmt/format.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

constexpr std::array<std::string_view, 5> kKinds = {"an integer", "a number", "text",
                                                    "a list of integers", "a list of numbers"};

template <class T>
const T& value_of(std::string_view name, const AttributeValue* value) {
  if (value == nullptr) {
    throw Error(ErrorCode::invalid_argument, fmt::format("attribute \"{}\" is missing", name));
  }
  if (const T* typed = std::get_if<T>(value)) return *typed;
  throw Error(ErrorCode::invalid_argument,
              fmt::format("attribute \"{}\" wants {}, got {}", name,
                          kKinds[AttributeValue(T{}).index()], kKinds[value->index()]));
}

}  // namespace

Attributes::Attributes(std::initializer_list<Item> items) {
  for (const auto& [name, value] : items) {
    set(name, value);
  }
}

void Attributes::set(std::string_view name, AttributeValue value) {
  const auto at = std::ranges::lower_bound(items_, name, {}, &Item::first);
  if (at != items_.end() && at->first == name) {
    at->second = std::move(value);
  } else {
    items_.emplace(at, std::string(name), std::move(value));
  }
}

const AttributeValue* Attributes::find(std::string_view name) const {
  const auto at = std::ranges::lower_bound(items_, name, {}, &Item::first);
  return at != items_.end() && at->first == name ? &at->second : nullptr;
}

template <class T>
const T& Attributes::get(std::string_view name) const {
  return value_of<T>(name, find(name));
}
template const std::int64_t& Attributes::get(std::string_view) const;
template const double& Attributes::get(std::string_view) const;
template const std::string& Attributes::get(std::string_view) const;
template const std::vector<std::int64_t>& Attributes::get(std::string_view) const;
template const std::vector<double>& Attributes::get(std::string_view) const;

std::int64_t Attributes::integer(std::string_view name) const {
  return value_of<std::int64_t>(name, find(name));
}
double Attributes::number(std::string_view name) const {
  return value_of<double>(name, find(name));
}
const std::string& Attributes::text(std::string_view name) const {
  return value_of<std::string>(name, find(name));
}
const std::vector<std::int64_t>& Attributes::integers(std::string_view name) const {
  return value_of<std::vector<std::int64_t>>(name, find(name));
}
const std::vector<double>& Attributes::numbers(std::string_view name) const {
  return value_of<std::vector<double>>(name, find(name));
}

}  // namespace tilemesh
