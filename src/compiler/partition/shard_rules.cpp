#include "compiler/partition/shard_rules.hpp"

#include <algorithm>
#include <charconv>
#include <functional>
#include <regex>
#include <set>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include "tilemesh/base/close_names.hpp"
#include "tilemesh/base/error.hpp"

namespace tilemesh {

namespace {

constexpr std::string_view kPattern = "re:";

[[noreturn]] void refuse(const std::string& text, std::string_view why) {
  throw Error(ErrorCode::invalid_argument,
              fmt::format("the rule \"{}\" {}: write NAME=DIM or NAME=DIM@AXIS, several DIM@AXIS "
                          "apart by commas",
                          text, why));
}

int number_of(const std::string& text, std::string_view part) {
  int number = 0;
  const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), number);
  if (error != std::errc() || end != part.data() + part.size() || number < 0) {
    refuse(text, fmt::format("has \"{}\" where a number should be", part));
  }
  return number;
}

std::vector<std::string_view> split(std::string_view text, char separator) {
  std::vector<std::string_view> parts;
  while (true) {
    const std::size_t end = text.find(separator);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

ShardRule rule_of(const std::string& text, const std::string& name, std::string_view cut) {
  const std::size_t at = cut.find('@');
  ShardRule rule{.name = name, .dim = number_of(text, cut.substr(0, at)), .axis = -1};
  if (at != std::string_view::npos) rule.axis = number_of(text, cut.substr(at + 1));
  if (rule.dim >= kMaxRank)
    refuse(text, fmt::format("has dim {}, and tensors have at most {}", rule.dim, kMaxRank));
  if (rule.axis >= kMaxMeshAxes) {
    refuse(text, fmt::format("has axis {}, and meshes have at most {}", rule.axis, kMaxMeshAxes));
  }
  return rule;
}

void check_order(const std::string& text, const std::vector<ShardRule>& rules) {
  for (std::size_t i = 0; i < rules.size(); ++i) {
    for (std::size_t k = 0; k < i; ++k) {
      const bool same_axis =
          rules[i].axis == rules[k].axis || rules[i].axis < 0 || rules[k].axis < 0;
      if (same_axis) refuse(text, "cuts twice along one mesh axis");
      if (rules[i].dim == rules[k].dim && rules[i].axis < rules[k].axis) {
        refuse(text, fmt::format("cuts dim {} along axis {} before axis {}, but earlier axes cut "
                                 "slower, so name them first",
                                 rules[i].dim, rules[k].axis, rules[i].axis));
      }
    }
  }
}

std::function<bool(const std::string&)> matcher_of(const ShardRule& rule) {
  if (!rule.name.starts_with(kPattern)) {
    return [name = rule.name](const std::string& text) {
      return text == name;
    };
  }
  try {
    return [pattern = std::regex(rule.name.substr(kPattern.size()))](const std::string& text) {
      return std::regex_match(text, pattern);
    };
  } catch (const std::regex_error& error) {
    throw Error(
        ErrorCode::invalid_argument,
        fmt::format("the pattern \"{}\" is no regular expression: {}", rule.name, error.what()));
  }
}

}  // namespace

std::vector<ShardRule> parse_shard_rules(const std::string& text) {
  const std::size_t sign = text.rfind('=');  // a pattern may hold one too
  if (sign == std::string::npos || sign == 0) refuse(text, "names no value");
  const std::string name = text.substr(0, sign);
  std::vector<ShardRule> rules;
  for (const std::string_view cut : split(std::string_view(text).substr(sign + 1), ',')) {
    rules.push_back(rule_of(text, name, cut));
  }
  check_order(text, rules);
  return rules;
}

std::vector<AutoShard> parse_auto_shard(const std::string& text) {
  std::vector<AutoShard> automatic;
  for (const std::string_view word : split(text, ',')) {
    if (word != "data" && word != "tensor") {
      throw Error(ErrorCode::invalid_argument,
                  fmt::format("\"{}\" in \"{}\" is no way to cut a program: there are data and "
                              "tensor{}",
                              word, text, did_you_mean(word, {"data", "tensor"})));
    }
    const AutoShard how = word == "data" ? AutoShard::data : AutoShard::tensor;
    if (std::ranges::find(automatic, how) != automatic.end()) {
      throw Error(ErrorCode::invalid_argument, fmt::format("\"{}\" says {} twice", text, word));
    }
    automatic.push_back(how);
  }
  return automatic;
}

std::vector<GraphValueId> values_of(const ShardRule& rule, const Graph& graph) {
  const auto matches = matcher_of(rule);
  std::set<GraphValueId> found;
  for (std::size_t i = 0; i < graph.values.size(); ++i) {
    if (matches(graph.values[i].name)) found.insert(static_cast<GraphValueId>(i));
  }
  for (const GraphInput& input : graph.inputs) {
    if (matches(input.name)) found.insert(input.value);
  }
  for (const GraphOutput& output : graph.outputs) {
    if (matches(output.name)) found.insert(output.value);
  }
  return {found.begin(), found.end()};
}

std::vector<std::vector<ShardRule>> rules_by_graph(const std::vector<Graph>& graphs,
                                                   const std::vector<ShardRule>& rules) {
  std::vector<std::vector<ShardRule>> result(graphs.size());
  for (const ShardRule& rule : rules) {
    bool found = false;
    for (std::size_t i = 0; i < graphs.size(); ++i) {
      if (values_of(rule, graphs[i]).empty()) continue;
      result[i].push_back(rule);
      found = true;
    }
    if (found) continue;
    std::set<std::string> names;
    std::vector<std::string> all;
    for (const Graph& graph : graphs) {
      for (const GraphInput& input : graph.inputs)
        names.insert(input.name);
      for (const GraphOutput& output : graph.outputs)
        all.push_back(output.name);
      for (const GraphValue& value : graph.values)
        all.push_back(value.name);
    }
    throw Error(ErrorCode::not_found,
                fmt::format("{}: nothing has that name: there are the inputs {}, and the values "
                            "that `tilemesh inspect --values` lists{}",
                            to_string(rule), fmt::join(names, ", "), did_you_mean(rule.name, all)));
  }
  return result;
}

std::string to_string(const ShardRule& rule) {
  const std::string axis = rule.axis < 0 ? std::string() : fmt::format("@{}", rule.axis);
  return fmt::format("--shard {}={}{}", rule.name, rule.dim, axis);
}

}  // namespace tilemesh
