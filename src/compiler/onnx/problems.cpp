#include "compiler/onnx/problems.hpp"

#include <algorithm>

#include <fmt/format.h>

namespace tilemesh::onnx_importer {

void Problems::add_unknown(const std::string& op, const std::string& node, std::string reason) {
  const auto known = std::find_if(unknown_.begin(), unknown_.end(),
                                  [&](const Unknown& unknown) { return unknown.op == op; });
  if (known == unknown_.end()) {
    unknown_.push_back({op, node, std::move(reason)});
  } else {
    ++known->count;
  }
}

void Problems::add_unsupported(const std::string& message) {
  if (std::find(unsupported_.begin(), unsupported_.end(), message) == unsupported_.end()) {
    unsupported_.push_back(message);
  }
}

void Problems::add_needed(const std::string& input, const std::string& user) {
  needed_.emplace(input, user);
}

void Problems::raise() const {
  std::string text;
  for (const Unknown& unknown : unknown_) {
    text += text.empty() ? "unsupported: ops " : ", ";
    text += unknown.count == 1 ? fmt::format("{} (node \"{}\"", unknown.op, unknown.node)
                               : fmt::format("{} ({} times, first node \"{}\"", unknown.op,
                                             unknown.count, unknown.node);
    text += unknown.reason.empty() ? ")" : ": " + unknown.reason + ")";
  }
  for (const std::string& message : unsupported_)
    text += (text.empty() ? "unsupported: " : "; ") + message;
  if (!text.empty()) throw Error(ErrorCode::unsupported, text);

  std::string flags;
  for (const auto& [input, user] : needed_) {
    text += fmt::format("{}\"{}\" ({})", text.empty() ? "" : ", ", input, user);
    flags += fmt::format(" --value {}=FILE.npy", input);
  }
  if (!text.empty()) {
    throw Error(ErrorCode::invalid_argument,
                fmt::format("shapes depend on the values of inputs, which must be known when the "
                            "model is compiled: {}: fix them with{}",
                            text, flags));
  }
}

}  // namespace tilemesh::onnx_importer
