#pragma once

#include <cstddef>
#include <filesystem>
#include <span>

namespace tilemesh {

/// Writes the pieces one after another into a new file beside `path`, which takes its name once the
/// bytes are on the disk: nobody ever sees a half-written file. Behind a symbolic link its target
/// is written; permissions of a file that is replaced stay. Throws io, naming the path and the
/// cause, and leaves nothing behind; also for what is no regular file, and where writing isn't
/// allowed.
void write_file(const std::filesystem::path& path,
                std::span<const std::span<const std::byte>> pieces);

/// Throws what write_file would throw of a path before it writes: to be asked before long work.
void check_writable(const std::filesystem::path& path);

/// Removes the files that write_file has begun and not ended, on all threads. Async-signal-safe:
/// for the handler of a signal that ends the process.
void remove_unfinished_files() noexcept;

}  // namespace tilemesh
