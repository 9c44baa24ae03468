#pragma once

#include <cerrno>
#include <filesystem>
#include <string_view>

#include <sys/stat.h>

namespace tilemesh::detail {

/// Throws io: can't VERB "PATH": CAUSE, the message of an errno.
[[noreturn]] void throw_io(const std::filesystem::path& path, std::string_view verb, int cause);

/// "a pipe" and the like, of a file that isn't regular.
std::string_view kind_of(const struct stat& status);

/// Calls a system function again while signals interrupt it.
template <class Call>
auto uninterrupted(const Call& call) {
  for (;;) {
    const auto result = call();
    if (result >= 0 || errno != EINTR) {
      return result;
    }
  }
}

}  // namespace tilemesh::detail
