#pragma once

#include <chrono>
#include <string>
#include <string_view>

namespace tilemesh::cli {

/// `text` with control characters written as \xNN: names in files must not steer the terminal.
std::string printable(std::string_view text);

/// The same with ends of lines written so too.
std::string printable_line(std::string_view text);

/// "tilemesh: error: ..." to stderr, in colour on a terminal.
void print_error(std::string_view message);

/// Text to stdout.
void print(std::string_view text);

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
  void clear();

 private:
  bool on_terminal_;
  bool shown_ = false;
  std::chrono::steady_clock::time_point start_;
  std::chrono::steady_clock::time_point last_;
};

}  // namespace tilemesh::cli
