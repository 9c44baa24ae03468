#include "terminal.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>

#include <fmt/format.h>
#include <nlohmann/json.hpp>
#include <unistd.h>

namespace tilemesh::cli {
namespace {

constexpr std::chrono::milliseconds kQuietTime(500);
constexpr std::chrono::milliseconds kShortestInterval(50);
constexpr int kBarColumns = 30;
constexpr std::string_view kEraseLine = "\r\x1b[K";

constexpr std::size_t kLongestMessage = 1 << 14;

int first_failure = 0;  // of a write to stdout; the tool prints on one thread

void note_failure(int cause) {
  if (first_failure == 0) {
    first_failure = cause == 0 ? EIO : cause;
  }
}

/// Without regard to what comes of it: there is nobody to tell.
void write_error(std::string_view text) noexcept {
  std::fwrite(text.data(), 1, text.size(), stderr);
  std::fflush(stderr);
}

/// Names in files may be as long as the file.
std::string shortened(std::string_view text) {
  if (text.size() <= kLongestMessage) {
    return std::string(text);
  }
  const std::size_t half = kLongestMessage / 2;
  return fmt::format("{} ... {} bytes ... {}", text.substr(0, half), text.size() - 2 * half,
                     text.substr(text.size() - half));
}

bool coloured() {
  return ::isatty(STDERR_FILENO) != 0 && std::getenv("NO_COLOR") == nullptr;
}

}  // namespace

void print_error(std::string_view message) noexcept {
  std::fflush(stdout);
  try {
    const std::string text = printable_block(shortened(message));
    const std::string_view start =
        coloured() ? "\x1b[1mtilemesh: \x1b[31merror:\x1b[0m " : "tilemesh: error: ";
    write_error(fmt::format("{}{}\n", start, text));
  } catch (...) {  // no memory for the text
    write_error("tilemesh: error: the memory of this machine is exhausted\n");
  }
}

void print(std::string_view text) {
  const std::string shown = printable(text);
  errno = 0;
  if (std::fwrite(shown.data(), 1, shown.size(), stdout) != shown.size()) {
    note_failure(errno);
  }
}

std::string to_text(const nlohmann::ordered_json& json) {
  return json.dump(2, ' ', true, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

void print_json(const nlohmann::ordered_json& json) {
  print(to_text(json));
}

int flush_output() noexcept {
  errno = 0;
  if (std::fflush(stdout) != 0 || std::ferror(stdout) != 0) {
    note_failure(errno);
  }
  return first_failure;
}

std::string format_seconds(double seconds) {
  if (seconds < 1e-3) {
    return fmt::format("{:.1f} us", seconds * 1e6);
  }
  return seconds < 1 ? fmt::format("{:.2f} ms", seconds * 1e3) : fmt::format("{:.2f} s", seconds);
}

std::string format_bytes(std::int64_t bytes) {
  static constexpr std::array<std::string_view, 5> kUnits = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return fmt::format("{} B", bytes);
  }
  double value = static_cast<double>(bytes) / 1024;
  std::size_t unit = 0;
  for (; value >= 1024 && unit + 1 < kUnits.size(); ++unit) {
    value /= 1024;
  }
  return fmt::format("{:.1f} {}", value, kUnits[unit]);
}

Progress::Progress()
    : on_terminal_(::isatty(STDERR_FILENO) != 0),
      start_(std::chrono::steady_clock::now()),
      last_(start_) {}

Progress::~Progress() {
  clear();
}

void Progress::show(std::string_view what, double done) {
  const auto now = std::chrono::steady_clock::now();
  if (!on_terminal_ || now - start_ < kQuietTime || now - last_ < kShortestInterval) {
    return;
  }
  last_ = now;
  shown_ = true;
  const double part = std::clamp(done, 0.0, 1.0);
  const int full = static_cast<int>(part * kBarColumns);
  write_error(fmt::format("{}[{:#<{}}{: <{}}] {:3.0f}% {}", kEraseLine, "", full, "",
                          kBarColumns - full, part * 100, printable_line(what)));
}

void Progress::clear() noexcept {
  if (shown_) {
    write_error(kEraseLine);
    shown_ = false;
  }
}

}  // namespace tilemesh::cli
