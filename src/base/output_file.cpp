#include "tilemesh/base/output_file.hpp"

#include <array>
#include <atomic>
#include <cstdio>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include "tilemesh/base/error.hpp"

#include "base/file_kind.hpp"

namespace tilemesh {
namespace {

/// The name of a file that is being written, kept where a signal handler can read it: in memory
/// that is never freed.
struct Slot {
  std::atomic<bool> taken = false;
  std::atomic<bool> named = false;  ///< `name` is whole
  std::array<char, 4096> name{};
};
constexpr std::size_t kSlots = 16;  // files written at one time by all threads; more aren't noted

// Made before main: a handler must not be the first to ask for them.
constinit std::array<Slot, kSlots> slots;

/// Notes the name for as long as this lives.
class UnfinishedName {
 public:
  explicit UnfinishedName(const std::string& name) {
    for (Slot& slot : slots) {
      if (name.size() < slot.name.size() && !slot.taken.exchange(true)) {
        std::memcpy(slot.name.data(), name.c_str(), name.size() + 1);
        slot.named = true;
        slot_ = &slot;
        return;
      }
    }
  }
  UnfinishedName(const UnfinishedName&) = delete;
  UnfinishedName& operator=(const UnfinishedName&) = delete;
  ~UnfinishedName() {
    if (slot_ != nullptr) {
      slot_->named = false;
      slot_->taken = false;
    }
  }

 private:
  Slot* slot_ = nullptr;
};

/// A new file, open for writing; closed and removed with its scope unless it took a name.
class TemporaryFile {
 public:
  TemporaryFile(const std::filesystem::path& path, mode_t mode)
      : path_(path), noted_(path_.string()), descriptor_(detail::uninterrupted([&] {
          return ::open(path.c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, mode);
        })) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (descriptor_ >= 0) {
      ::close(descriptor_);
    }
    if (exists_) {
      ::unlink(path_.c_str());
    }
  }

  int descriptor() const { return descriptor_; }
  /// Each gives 0, or what went wrong. A full disk may only be reported here.
  int close() { return ::close(std::exchange(descriptor_, -1)) == 0 ? 0 : errno; }
  int take_name(const std::filesystem::path& name) {
    if (::rename(path_.c_str(), name.c_str()) != 0) {
      return errno;
    }
    exists_ = false;
    return 0;
  }

 private:
  std::filesystem::path path_;
  UnfinishedName noted_;
  int descriptor_;
  bool exists_ = descriptor_ >= 0;
};

/// Short, since the file's own name may be as long as names can be.
std::filesystem::path temporary_name(const std::filesystem::path& target) {
  std::random_device random;
  return target.parent_path() / fmt::format(".{:08x}{:08x}.part", random(), random());
}

/// 0, or what went wrong.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written =
        detail::uninterrupted([&] { return ::write(descriptor, bytes.data(), bytes.size()); });
    if (written < 0) {
      return errno;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// What symbolic links lead to, whether it exists or not.
std::filesystem::path behind_links(std::filesystem::path path) {
  constexpr int kMostLinks = 40;  // as many as Linux follows
  std::error_code error;
  for (int i = 0; i <= kMostLinks; ++i) {
    const std::filesystem::path next = std::filesystem::read_symlink(path, error);
    if (error) {
      return path;
    }
    path = path.parent_path() / next;
  }
  detail::throw_io(path, "write", ELOOP);
}

struct Place {
  std::filesystem::path path;
  std::optional<mode_t> mode;  ///< of the file that is there
};

/// Where the bytes will lie, and what of it is there. What isn't a regular file is refused, since
/// renaming would replace it.
Place find_place(const std::filesystem::path& path) {
  if (!path.has_filename() || path.native().find('\0') != std::string::npos) {
    throw Error(ErrorCode::io, fmt::format("can't write \"{}\": it names no file", path.string()));
  }
  Place place{behind_links(path), {}};
  struct stat status {};
  if (::stat(place.path.c_str(), &status) != 0) {
    if (errno != ENOENT) {
      detail::throw_io(path, "write", errno);
    }
    const std::filesystem::path folder = place.path.parent_path();
    if (::access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0) {
      detail::throw_io(path, "write", errno);
    }
    return place;
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io, fmt::format("can't write \"{}\": it is {}, no regular file",
                                           path.string(), detail::kind_of(status)));
  }
  if (::access(place.path.c_str(), W_OK) != 0) {
    detail::throw_io(path, "write", errno);
  }
  place.mode = status.st_mode & 07777U;
  return place;
}

}  // namespace

void write_file(const std::filesystem::path& path,
                std::span<const std::span<const std::byte>> pieces) {
  const auto check = [&](int cause) {
    if (cause != 0) {
      detail::throw_io(path, "write", cause);
    }
  };
  const Place place = find_place(path);
  TemporaryFile file(temporary_name(place.path), 0666);
  check(file.descriptor() < 0 ? errno : 0);
  if (place.mode) {
    check(::fchmod(file.descriptor(), *place.mode) == 0 ? 0 : errno);
  }
  for (const std::span<const std::byte> piece : pieces) {
    check(write_all(file.descriptor(), piece));
  }
  // The name must not reach the disk before the bytes do.
  check(::fsync(file.descriptor()) == 0 ? 0 : errno);
  check(file.close());
  check(file.take_name(place.path));
}

void check_writable(const std::filesystem::path& path) {
  static_cast<void>(find_place(path));
}

void remove_unfinished_files() noexcept {
  for (const Slot& slot : slots) {
    if (slot.named) {
      ::unlink(slot.name.data());
    }
  }
}

}  // namespace tilemesh
