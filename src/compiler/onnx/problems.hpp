#pragma once

#include <map>
#include <string>
#include <vector>

#include "tilemesh/base/error.hpp"

namespace tilemesh::onnx_importer {

/// What stands in the way of an import, gathered so that one message tells all of it.
class Problems {
 public:
  /// An op that we don't have; `reason` may be empty.
  void add_unknown(const std::string& op, const std::string& node, std::string reason);
  /// A use of an op that we have, but not in this form.
  void add_unsupported(const std::string& message);
  /// The value of graph input `input` is needed by `user`.
  void add_needed(const std::string& input, const std::string& user);
  /// A value is needed that hangs on no input that could be fixed.
  bool empty() const { return unknown_.empty() && unsupported_.empty() && needed_.empty(); }

  /// Throws what there is: unsupported ops first, then needed values (invalid_argument).
  void raise() const;

 private:
  struct Unknown {
    std::string op;
    std::string node;
    std::string reason;
    int count = 1;
  };
  std::vector<Unknown> unknown_;
  std::vector<std::string> unsupported_;
  std::map<std::string, std::string> needed_;
};

}  // namespace tilemesh::onnx_importer
