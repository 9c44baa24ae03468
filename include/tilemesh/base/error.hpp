#pragma once

#include <stdexcept>
#include <string>
#include <string_view>

namespace tilemesh {

/// What kind of thing went wrong; stable over versions, so that callers may branch on it.
enum class ErrorCode {
  invalid_argument,      ///< the caller's mistake: wrong shape, name, index, state
  not_found,             ///< a name that isn't there
  io,                    ///< a file that can't be read or written
  invalid_file,          ///< a file whose content breaks its format
  unsupported,           ///< well-formed, but not in what we implement
  mismatch,              ///< program, mesh and machine don't fit each other
  out_of_memory,         ///< an arena has no room
  deallocated,           ///< a tensor or buffer used after deallocate or donate
  conversion_forbidden,  ///< a stitch needs a copy and the policy forbids it
  kernel_failed,         ///< a command failed on a device
  timeout,               ///< a wait ran out of its time
  internal,              ///< a bug of ours
};

/// The enumerator's name, for messages and tools.
std::string_view to_string(ErrorCode code);

/// The one exception type of Tilemesh: a code, and a message that names the thing, what was met,
/// what was wanted and the remedy. Copyable; immutable.
class Error : public std::runtime_error {
 public:
  Error(ErrorCode code, const std::string& message);

  ErrorCode code() const { return code_; }

  /// The same error with `context` put before its message ("program \"encode\": ...").
  Error in(std::string_view context) const;

 private:
  ErrorCode code_;
};

namespace detail {
[[noreturn]] void check_failed(const char* condition, std::string_view message, const char* file,
                               int line);
}  // namespace detail

}  // namespace tilemesh

/// States what only a bug of ours can break; always on. Throws ErrorCode::internal with the place.
#define TILEMESH_CHECK(condition, message)                                         \
  do {                                                                             \
    if (!(condition)) [[unlikely]] {                                               \
      ::tilemesh::detail::check_failed(#condition, (message), __FILE__, __LINE__); \
    }                                                                              \
  } while (false)
