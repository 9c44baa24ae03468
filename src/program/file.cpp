#include "file.hpp"

#include <cerrno>
#include <cstring>
#include <random>
#include <string>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh {
namespace {

[[noreturn]] void io_error(const std::filesystem::path& path, std::string_view verb, int cause) {
  throw Error(ErrorCode::io, fmt::format("can't {} \"{}\": {}", verb, path.string(),
                                         std::generic_category().message(cause)));
}

/// An open file descriptor, closed with its scope.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_(number) {}
  Descriptor(const Descriptor&) = delete;
  Descriptor& operator=(const Descriptor&) = delete;
  ~Descriptor() {
    if (number_ >= 0) {
      ::close(number_);
    }
  }
  int number() const { return number_; }
  bool ok() const { return number_ >= 0; }
  /// 0, or what went wrong: a full disk may only be reported here.
  int close() { return ::close(std::exchange(number_, -1)) == 0 ? 0 : errno; }

 private:
  int number_;
};

/// Removes the file it names, unless told that it has been kept.
class TemporaryFile {
 public:
  explicit TemporaryFile(std::filesystem::path path) : path_(std::move(path)) {}
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  ~TemporaryFile() {
    if (!kept_) {
      std::error_code ignored;
      std::filesystem::remove(path_, ignored);
    }
  }
  const std::filesystem::path& path() const { return path_; }
  void keep() { kept_ = true; }

 private:
  std::filesystem::path path_;
  bool kept_ = false;
};

std::filesystem::path temporary_name(const std::filesystem::path& path) {
  std::random_device random;
  std::filesystem::path name = path;
  name += fmt::format(".{:08x}{:08x}.part", random(), random());
  return name;
}

/// 0, or what went wrong.
int write_all(int descriptor, std::span<const std::byte> bytes) {
  while (!bytes.empty()) {
    const ssize_t written = ::write(descriptor, bytes.data(), bytes.size());
    if (written < 0 && errno == EINTR) {
      continue;
    }
    if (written < 0) {
      return errno;
    }
    bytes = bytes.subspan(static_cast<std::size_t>(written));
  }
  return 0;
}

/// Where the bytes will lie: behind a symbolic link, its target. A device or a folder is refused,
/// since renaming would replace it.
std::filesystem::path final_path(const std::filesystem::path& path) {
  std::error_code error;
  const std::filesystem::file_status status = std::filesystem::status(path, error);
  if (!std::filesystem::exists(status)) {
    return path;
  }
  if (!std::filesystem::is_regular_file(status)) {
    throw Error(ErrorCode::io,
                fmt::format("can't write \"{}\": it exists and is no regular file", path.string()));
  }
  std::filesystem::path real = std::filesystem::canonical(path, error);
  return error ? path : real;
}

}  // namespace

MappedFile::MappedFile(const std::filesystem::path& path) {
  // Without O_NONBLOCK, opening a pipe that nobody writes to would hang.
  const Descriptor file(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!file.ok()) {
    io_error(path, "open", errno);
  }
  struct stat status {};
  if (::fstat(file.number(), &status) != 0) {
    io_error(path, "read", errno);
  }
  if (!S_ISREG(status.st_mode)) {
    throw Error(ErrorCode::io,
                fmt::format("can't read \"{}\": it is no regular file", path.string()));
  }
  if (status.st_size == 0) {
    return;
  }
  const auto size = static_cast<std::size_t>(status.st_size);
  void* data = ::mmap(nullptr, size, PROT_READ, MAP_PRIVATE, file.number(), 0);
  if (data == MAP_FAILED) {
    io_error(path, "map", errno);
  }
  data_ = static_cast<const std::byte*>(data);
  size_ = size;
}

MappedFile::MappedFile(MappedFile&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedFile& MappedFile::operator=(MappedFile&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedFile::~MappedFile() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

void write_file(const std::filesystem::path& path,
                std::span<const std::span<const std::byte>> pieces) {
  const std::filesystem::path target = final_path(path);
  TemporaryFile temporary(temporary_name(target));
  Descriptor file(::open(temporary.path().c_str(), O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666));
  if (!file.ok()) {
    io_error(path, "write", errno);
  }
  for (const std::span<const std::byte> piece : pieces) {
    if (const int cause = write_all(file.number(), piece); cause != 0) {
      io_error(path, "write", cause);
    }
  }
  // The name must not reach the disk before the bytes do.
  if (::fsync(file.number()) != 0) {
    io_error(path, "write", errno);
  }
  if (const int cause = file.close(); cause != 0) {
    io_error(path, "write", cause);
  }
  if (::rename(temporary.path().c_str(), target.c_str()) != 0) {
    io_error(path, "write", errno);
  }
  temporary.keep();
}

}  // namespace tilemesh
