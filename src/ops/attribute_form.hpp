#pragma once

#include <cstdint>
#include <initializer_list>
#include <limits>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "tilemesh/ops/op.hpp"

namespace tilemesh::ops {

/// What an integer attribute may be. Without a fallback it must be given.
struct IntegerRule {
  std::optional<std::int64_t> fallback{};
  std::int64_t min = std::numeric_limits<std::int64_t>::min();
  std::int64_t max = std::numeric_limits<std::int64_t>::max();
};

/// Makes the canonical form of a call's attributes: a row's `canonical` function names every
/// attribute that the op has, each by one of the verbs below, and may use what they return for the
/// next. The form then holds all of them, in range, axes counted from the front; an attribute that
/// was given and not named is refused. Every verb throws invalid_argument with the name, the value
/// met and the values wanted.
///
/// What depends on sizes (that a slice stays inside, that a group divides) is for `infer`.
class AttributeForm {
 public:
  explicit AttributeForm(const OpCall& call) : call_(&call) {}

  /// The call whose operands the form may depend on. Its attributes are as they were given.
  const OpCall& call() const { return *call_; }
  /// The rank of input `index`; 0 for an absent one.
  int rank(std::size_t index = 0) const;

  std::int64_t integer(std::string_view name, const IntegerRule& rule = {});
  /// 0 or 1.
  bool flag(std::string_view name, std::optional<bool> fallback = {});
  /// Any number but NaN. Stored as the f32 it is in ONNX would lose digits: it stays a double.
  double number(std::string_view name, std::optional<double> fallback = {});
  std::string text(std::string_view name, std::optional<std::string_view> fallback = {});
  /// One of `options`; the first is the fallback, unless it must be given.
  std::string choice(std::string_view name, std::span<const std::string_view> options,
                     bool required = false);
  std::string choice(std::string_view name, std::initializer_list<std::string_view> options,
                     bool required = false) {
    return choice(name, std::span(options.begin(), options.size()), required);
  }
  /// The number of a dtype.
  DType dtype(std::string_view name, std::optional<DType> fallback = {});
  /// A dim of a tensor of `rank`, counted from the front.
  int axis(std::string_view name, int rank, std::optional<std::int64_t> fallback = {});
  /// Different dims of a tensor of `rank`, counted from the front and in the given order. Missing
  /// or empty: all of them, or the first `count` where it is said, unless they must be given.
  /// Given: as many as `count` where it is said.
  std::vector<std::int64_t> axes(std::string_view name, int rank,
                                 std::optional<std::size_t> count = {}, bool required = false);
  /// `count` integers; missing or empty: the rule's fallback that often.
  std::vector<std::int64_t> integers(std::string_view name, std::size_t count,
                                     const IntegerRule& rule = {});
  /// Any number of integers; missing: none, if `optional`.
  std::vector<std::int64_t> integer_list(std::string_view name, const IntegerRule& rule = {},
                                         bool optional = false);
  /// Any number of numbers; missing: none, if `optional`.
  std::vector<double> number_list(std::string_view name, bool optional = false);
  /// As many numbers as `fallback` has, which stands for a missing or empty list.
  std::vector<double> numbers(std::string_view name, std::vector<double> fallback);

  /// The canonical attributes. Throws invalid_argument for one that was given and not named.
  Attributes take();

 private:
  template <class T>
  const T* given(std::string_view name) const;
  template <class T>
  T given_or(std::string_view name, const std::optional<T>& fallback) const;
  template <class T>
  T keep(std::string_view name, T value);

  const OpCall* call_;
  Attributes form_;
};

}  // namespace tilemesh::ops
