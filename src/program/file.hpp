#pragma once

#include <cstddef>
#include <filesystem>
#include <span>
#include <vector>

namespace tilemesh {

/// A file mapped read-only for as long as this lives. Move-only; thread-safe to read.
class MappedFile {
 public:
  MappedFile() = default;
  /// Throws io, naming the path and the cause, unless it is a readable regular file.
  explicit MappedFile(const std::filesystem::path& path);
  MappedFile(MappedFile&& other) noexcept;
  MappedFile& operator=(MappedFile&& other) noexcept;
  MappedFile(const MappedFile&) = delete;
  MappedFile& operator=(const MappedFile&) = delete;
  ~MappedFile();

  std::span<const std::byte> bytes() const { return {data_, size_}; }

 private:
  const std::byte* data_ = nullptr;
  std::size_t size_ = 0;
};

/// Writes the pieces one after another into a new file beside `path`, which then takes its name:
/// nobody ever sees a half-written file. Throws io and leaves nothing behind on failure.
void write_file(const std::filesystem::path& path,
                std::span<const std::span<const std::byte>> pieces);

}  // namespace tilemesh
