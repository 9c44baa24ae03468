#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace tilemesh {

/// A regular file that is open for reading: the one way by which Tilemesh reads files that users or
/// models name. Pipes, sockets, devices and folders are refused before they are opened, so nothing
/// waits or has side effects. Its size is that of the moment of opening: what is appended later
/// isn't seen, and a file that claims to be empty is. Errors are io and name the path. Move-only;
/// thread-safe to read.
class InputFile {
 public:
  explicit InputFile(const std::filesystem::path& path);
  InputFile(InputFile&& other) noexcept;
  InputFile& operator=(InputFile&& other) noexcept;
  InputFile(const InputFile&) = delete;
  InputFile& operator=(const InputFile&) = delete;
  ~InputFile();

  const std::filesystem::path& path() const { return path_; }
  std::uint64_t size() const { return size_; }
  /// Owned by this; at the start of the file unless the caller moves it.
  int descriptor() const { return descriptor_; }

  /// Fills `into` from byte `offset` on. Throws io where the file ends before.
  void read(std::uint64_t offset, std::span<std::byte> into) const;
  /// A part of the file. Throws io where it ends before, and for more than the machine's memory: a
  /// hole in a file costs its author nothing.
  std::vector<std::byte> bytes(std::uint64_t offset, std::uint64_t count) const;
  /// The whole file; throws invalid_file for more than `most` bytes.
  std::string text(std::uint64_t most) const;

 private:
  InputFile(std::filesystem::path path, int descriptor);

  std::filesystem::path path_;
  int descriptor_ = -1;
  std::uint64_t size_ = 0;
};

/// A range of a file mapped read-only for as long as this lives; the file may be closed. Move-only;
/// thread-safe to read. A file that others make shorter meanwhile ends in SIGBUS.
class MappedBytes {
 public:
  MappedBytes() = default;
  /// `offset` is a multiple of the page size, and the range lies in the file. Throws io.
  MappedBytes(const InputFile& file, std::uint64_t offset, std::uint64_t count);
  MappedBytes(MappedBytes&& other) noexcept;
  MappedBytes& operator=(MappedBytes&& other) noexcept;
  MappedBytes(const MappedBytes&) = delete;
  MappedBytes& operator=(const MappedBytes&) = delete;
  ~MappedBytes();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

}  // namespace tilemesh
