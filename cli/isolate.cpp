#include "isolate.hpp"

#include <algorithm>
#include <array>
#include <cerrno>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <exception>
#include <string_view>

#include <fcntl.h>
#include <fmt/format.h>
#include <poll.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tilemesh/base/error.hpp"

namespace tilemesh::cli {
namespace {

using Clock = std::chrono::steady_clock;

struct Child {
  std::size_t index = 0;
  pid_t process = -1;
  int results = -1;   // read end of the pipe that its text comes through
  int messages = -1;  // what it wrote to stderr
  Clock::time_point deadline;
  std::string text;
};

[[noreturn]] void system_error(std::string_view what) {
  throw Error(ErrorCode::io,
              fmt::format("can't {} a test's process: {}", what, std::strerror(errno)));
}

void write_all(int descriptor, std::string_view text) {
  while (!text.empty()) {
    const ssize_t written = ::write(descriptor, text.data(), text.size());
    if (written < 0 && errno != EINTR) {
      return;
    }
    text.remove_prefix(static_cast<std::size_t>(std::max<ssize_t>(written, 0)));
  }
}

/// The child's life; ends the process without running the parent's destructors.
[[noreturn]] void live(int results, int messages, const std::function<std::string()>& function) {
  ::prctl(PR_SET_PDEATHSIG, SIGKILL);  // nobody would read what it finds
  const int nowhere = ::open("/dev/null", O_RDWR);
  ::dup2(nowhere, STDIN_FILENO);
  ::dup2(nowhere, STDOUT_FILENO);
  ::dup2(messages, STDERR_FILENO);
  int code = 0;
  try {
    write_all(results, function());
  } catch (const std::exception& error) {
    write_all(STDERR_FILENO, error.what());
    code = 1;
  }
  ::_exit(code);
}

Child start(std::size_t index, std::chrono::seconds timeout,
            const std::function<std::string(std::size_t)>& function) {
  std::array<int, 2> pipe{};
  if (::pipe2(pipe.data(), O_CLOEXEC) != 0) {
    system_error("talk to");
  }
  Child child{index, -1, pipe[0], ::memfd_create("messages", MFD_CLOEXEC), Clock::now() + timeout,
              {}};
  std::fflush(nullptr);  // or the child would print the parent's buffers again
  child.process = ::fork();
  if (child.process < 0) {
    system_error("start");
  }
  if (child.process == 0) {
    ::close(pipe[0]);
    live(pipe[1], child.messages, [&] { return function(index); });
  }
  ::close(pipe[1]);
  return child;
}

/// The last line that a child wrote to stderr: what an abort or a sanitizer had to say.
std::string last_message(int descriptor) {
  constexpr off_t kMost = 4096;
  const off_t size = ::lseek(descriptor, 0, SEEK_END);
  const off_t begin = std::max<off_t>(0, size - kMost);
  std::string text(static_cast<std::size_t>(std::max<off_t>(0, size - begin)), '\0');
  if (::pread(descriptor, text.data(), text.size(), begin) < 0) {
    return {};
  }
  text.erase(text.find_last_not_of(" \n") + 1);
  return text.substr(text.rfind('\n') + 1);
}

std::string failure_of(int status, const Child& child, bool timed_out,
                       std::chrono::seconds timeout) {
  if (timed_out) {
    return fmt::format("timed out after {} s", timeout.count());
  }
  const std::string message = last_message(child.messages);
  const std::string tail = message.empty() ? "" : ": " + message;
  if (WIFSIGNALED(status)) {
    return fmt::format("crashed with signal {} ({}){}", WTERMSIG(status),
                       ::strsignal(WTERMSIG(status)), tail);
  }
  return WEXITSTATUS(status) == 0 ? "" : fmt::format("ended with {}{}", WEXITSTATUS(status), tail);
}

IsolatedResult finish(Child& child, bool timed_out, std::chrono::seconds timeout) {
  if (timed_out) {
    ::kill(child.process, SIGKILL);
  }
  int status = 0;
  while (::waitpid(child.process, &status, 0) < 0 && errno == EINTR) {
  }
  IsolatedResult result{std::move(child.text), failure_of(status, child, timed_out, timeout)};
  ::close(child.results);
  ::close(child.messages);
  return result;
}

/// Reads what is there; false at the end of the child's text.
bool read_some(Child& child) {
  std::array<char, 4096> buffer{};
  const ssize_t count = ::read(child.results, buffer.data(), buffer.size());
  if (count > 0) {
    child.text.append(buffer.data(), static_cast<std::size_t>(count));
  }
  return count > 0 || (count < 0 && errno == EINTR);
}

/// Sleeps until a child has something to say or the first deadline passes.
std::vector<pollfd> wait_for_any(const std::vector<Child>& children) {
  std::vector<pollfd> polls;
  Clock::time_point first = Clock::time_point::max();
  for (const Child& child : children) {
    polls.push_back({child.results, POLLIN, 0});
    first = std::min(first, child.deadline);
  }
  const auto left =
      std::chrono::duration_cast<std::chrono::milliseconds>(first - Clock::now()).count() + 1;
  ::poll(polls.data(), polls.size(), static_cast<int>(std::clamp<long>(left, 0, 1 << 20)));
  return polls;
}

}  // namespace

void run_isolated(std::size_t count, std::size_t jobs, std::chrono::seconds timeout,
                  const std::function<std::string(std::size_t)>& function,
                  const std::function<void(std::size_t, const IsolatedResult&)>& done) {
  std::vector<Child> children;
  std::size_t next = 0;
  while (next < count || !children.empty()) {
    while (next < count && children.size() < std::max<std::size_t>(jobs, 1)) {
      children.push_back(start(next++, timeout, function));
    }
    const std::vector<pollfd> polls = wait_for_any(children);
    for (std::size_t i = polls.size(); i-- > 0;) {
      const bool timed_out = Clock::now() >= children[i].deadline;
      const bool ended = polls[i].revents != 0 && !read_some(children[i]);
      if (ended || timed_out) {
        Child child = std::move(children[i]);
        children.erase(children.begin() + static_cast<std::ptrdiff_t>(i));
        done(child.index, finish(child, timed_out && !ended, timeout));
      }
    }
  }
}

}  // namespace tilemesh::cli
