#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace tilemesh {

/// One attribute's value. Booleans are integers, dtypes are their numbers (DType).
using AttributeValue =
    std::variant<std::int64_t, double, std::string, std::vector<std::int64_t>, std::vector<double>>;

/// Named constants of an op ("axis" = 1), sorted by name. Known once compiled; a value.
class Attributes {
 public:
  using Item = std::pair<std::string, AttributeValue>;

  Attributes() = default;
  Attributes(std::initializer_list<Item> items);

  void set(std::string_view name, AttributeValue value);
  bool has(std::string_view name) const { return find(name) != nullptr; }
  const AttributeValue* find(std::string_view name) const;

  /// T: a type that an attribute's value may have. Throws invalid_argument when the attribute is
  /// missing or of another type, as each of the named forms does.
  template <class T>
  const T& get(std::string_view name) const;
  std::int64_t integer(std::string_view name) const;
  double number(std::string_view name) const;
  const std::string& text(std::string_view name) const;
  const std::vector<std::int64_t>& integers(std::string_view name) const;
  const std::vector<double>& numbers(std::string_view name) const;

  const std::vector<Item>& items() const { return items_; }
  friend bool operator==(const Attributes&, const Attributes&) = default;

 private:
  std::vector<Item> items_;
};

}  // namespace tilemesh
