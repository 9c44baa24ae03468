#include "tilemesh/base/input_file.hpp"

#include <algorithm>
#include <utility>

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/mman.h>
#include <unistd.h>

#include "tilemesh/base/error.hpp"

#include "base/file_kind.hpp"

namespace tilemesh {

namespace detail {

void throw_io(const std::filesystem::path& path, std::string_view verb, int cause) {
  throw Error(ErrorCode::io, fmt::format("can't {} \"{}\": {}", verb, path.string(),
                                         std::generic_category().message(cause)));
}

std::string_view kind_of(const struct stat& status) {
  if (S_ISDIR(status.st_mode)) return "a folder";
  if (S_ISFIFO(status.st_mode)) return "a pipe";
  if (S_ISSOCK(status.st_mode)) return "a socket";
  return "a device";
}

}  // namespace detail

namespace {

/// By ::stat or ::fstat; throws unless it is a regular file.
template <class Stat, class File>
struct stat status_of(const std::filesystem::path& path, const Stat& ask, const File& file) {
  struct stat status {};
  if (ask(file, &status) != 0) {
    detail::throw_io(path, "open", errno);
  }
  if (S_ISREG(status.st_mode)) {
    return status;
  }
  throw Error(ErrorCode::io,
              fmt::format("can't read \"{}\": it is {}, no regular file{}", path.string(),
                          detail::kind_of(status),
                          S_ISDIR(status.st_mode) ? "" : ": save what it gives in a file first"));
}

/// An embedded zero would end the name early, at another file.
void check_name(const std::filesystem::path& path) {
  if (path.empty() || path.native().find('\0') != std::string::npos) {
    throw Error(ErrorCode::io,
                fmt::format("can't open \"{}\": a file's name can't be empty or hold a zero byte",
                            path.string()));
  }
}

/// A descriptor of what was a regular file a moment ago. Asked before opening, since that alone can
/// have effects: it wakes a pipe's writer, arms a watchdog. Opening must not wait either.
int open_regular(const std::filesystem::path& path) {
  check_name(path);
  status_of(
      path, [](const char* name, struct stat* into) { return ::stat(name, into); }, path.c_str());
  const int descriptor = detail::uninterrupted(
      [&] { return ::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY); });
  if (descriptor < 0) {
    detail::throw_io(path, "open", errno);
  }
  return descriptor;
}

std::uint64_t machine_bytes() {
  const auto pages = static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PHYS_PAGES)));
  return pages * static_cast<std::uint64_t>(std::max(0L, ::sysconf(_SC_PAGESIZE)));
}

void check_fits(const std::filesystem::path& path, std::uint64_t count) {
  if (count > machine_bytes()) {
    throw Error(ErrorCode::io,
                fmt::format("can't read {} bytes of \"{}\": this machine's memory has {}", count,
                            path.string(), machine_bytes()));
  }
}

}  // namespace

InputFile::InputFile(const std::filesystem::path& path) : InputFile(path, open_regular(path)) {
  // Asked again, since the name may have come to mean another file.
  const struct stat status = status_of(
      path_, [](int file, struct stat* into) { return ::fstat(file, into); }, descriptor_);
  size_ = static_cast<std::uint64_t>(status.st_size);
}

InputFile::InputFile(std::filesystem::path path, int descriptor)
    : path_(std::move(path)), descriptor_(descriptor) {}

InputFile::InputFile(InputFile&& other) noexcept
    : path_(std::move(other.path_)),
      descriptor_(std::exchange(other.descriptor_, -1)),
      size_(std::exchange(other.size_, 0)) {}

InputFile& InputFile::operator=(InputFile&& other) noexcept {
  std::swap(path_, other.path_);
  std::swap(descriptor_, other.descriptor_);
  std::swap(size_, other.size_);
  return *this;
}

InputFile::~InputFile() {
  if (descriptor_ >= 0) {
    ::close(descriptor_);
  }
}

void InputFile::read(std::uint64_t offset, std::span<std::byte> into) const {
  while (!into.empty()) {
    const ssize_t count = detail::uninterrupted(
        [&] { return ::pread(descriptor_, into.data(), into.size(), static_cast<off_t>(offset)); });
    if (count < 0) {
      detail::throw_io(path_, "read", errno);
    }
    if (count == 0) {
      throw Error(ErrorCode::io,
                  fmt::format("can't read \"{}\": it ends after {} bytes, {} more are wanted",
                              path_.string(), offset, into.size()));
    }
    into = into.subspan(static_cast<std::size_t>(count));
    offset += static_cast<std::uint64_t>(count);
  }
}

std::vector<std::byte> InputFile::bytes(std::uint64_t offset, std::uint64_t count) const {
  check_fits(path_, count);
  std::vector<std::byte> result(count);
  read(offset, result);
  return result;
}

std::string InputFile::text(std::uint64_t most) const {
  if (size_ > most) {
    throw Error(ErrorCode::invalid_file,
                fmt::format("\"{}\" has {} bytes, more than the {} that such a file may have",
                            path_.string(), size_, most));
  }
  check_fits(path_, size_);
  std::string result(size_, '\0');
  read(0, std::as_writable_bytes(std::span(result)));
  return result;
}

MappedBytes::MappedBytes(const InputFile& file, std::uint64_t offset, std::uint64_t count) {
  if (offset > file.size() || count > file.size() - offset) {
    throw Error(ErrorCode::io,
                fmt::format("can't map {} bytes from byte {} of \"{}\", which has {}", count,
                            offset, file.path().string(), file.size()));
  }
  if (count == 0) {
    return;
  }
  void* data =
      ::mmap(nullptr, count, PROT_READ, MAP_PRIVATE, file.descriptor(), static_cast<off_t>(offset));
  if (data == MAP_FAILED) {
    detail::throw_io(file.path(), "map", errno);
  }
  data_ = static_cast<const std::byte*>(data);
  size_ = count;
}

MappedBytes::MappedBytes(MappedBytes&& other) noexcept
    : data_(std::exchange(other.data_, nullptr)), size_(std::exchange(other.size_, 0)) {}

MappedBytes& MappedBytes::operator=(MappedBytes&& other) noexcept {
  std::swap(data_, other.data_);
  std::swap(size_, other.size_);
  return *this;
}

MappedBytes::~MappedBytes() {
  if (data_ != nullptr) {
    ::munmap(const_cast<std::byte*>(data_), size_);
  }
}

}  // namespace tilemesh
