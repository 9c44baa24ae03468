#pragma once

#include <chrono>
#include <string>
#include <string_view>

#include <nlohmann/json_fwd.hpp>

#include "tilemesh/base/printable.hpp"

namespace tilemesh::cli {

/// "tilemesh: error: ..." to stderr, in colour on a terminal. Names within can't steer it, nor pass
/// for a line of ours. A stderr that is closed or full is borne.
void print_error(std::string_view message) noexcept;

/// Text to stdout, through `printable`: all that the tool prints goes through here. Whether it
/// arrived says flush_output.
void print(std::string_view text);

/// JSON to stdout.
void print_json(const nlohmann::ordered_json& json);
/// The same as text, with an end of line: in ASCII alone, so that no name steers a terminal, and
/// valid whatever bytes names hold.
std::string to_text(const nlohmann::ordered_json& json);

/// Flushes stdout; 0, or the errno of the first write that failed.
int flush_output() noexcept;

/// "12.5 us", "3.2 ms", "1.5 s"
std::string format_seconds(double seconds);
/// "512 B", "1.5 MiB"
std::string format_bytes(std::int64_t bytes);

/// A bar on stderr for what takes longer than a moment; silent when stderr is no terminal.
class Progress {
 public:
  Progress();
  ~Progress();
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  /// `done` from 0 to 1.
  void show(std::string_view what, double done);
  /// Removes the bar, before other text is printed.
  void clear() noexcept;

 private:
  bool on_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tilemesh::cli
