// Works off windows of a file with one or several threads: order, cancelling, progress and the
// first error. It does not know how a window is read.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "base/result.h"
#include "loader/reader.h"

namespace rouse::loader {

struct Window {
  int64_t offset = 0;
  int64_t bytes = 0;
  // Near the end of what is wanted: the kernel's read-ahead must not go beyond the window.
  bool exact = false;
};

// Reads windows of one file; each thread has one of its own.
class WindowReader {
 public:
  virtual ~WindowReader() = default;
  virtual Status ReadWindow(const Window& window) = 0;
};
using MakeReader = std::function<Result<std::unique_ptr<WindowReader>>()>;

struct Work {
  std::vector<Window> windows;    // to read, in this order
  int64_t done_before_bytes = 0;  // already resident: counts as done
  int64_t wanted_bytes = 0;
};

// Returns the first error (kInterrupted when cancelled); windows that others have begun are
// finished first. With one thread everything runs on the caller's.
Status RunWindows(const Work& work, const MakeReader& make_reader, const WarmOptions& options,
                  const WarmProgressFn& progress);

}  // namespace rouse::loader
