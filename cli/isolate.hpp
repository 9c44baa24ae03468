#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <string>
#include <vector>

namespace tilemesh::cli {

/// How a child process ended.
struct IsolatedResult {
  std::string text;     ///< what its function gave back
  std::string failure;  ///< empty, or how it died: "crashed with signal 11 (...)", "timed out ..."
};

/// Runs `function(i)` for every i below `count`, each in a child process of its own, `jobs` at a
/// time. A crash or hang of one touches no other; a child is killed after `timeout`. Calls
/// `done(i, result)` in the order in which they end. The caller must have started no threads.
void run_isolated(std::size_t count, std::size_t jobs, std::chrono::seconds timeout,
                  const std::function<std::string(std::size_t)>& function,
                  const std::function<void(std::size_t, const IsolatedResult&)>& done);

}  // namespace tilemesh::cli
