// What happens when a mapped model file breaks under the computing threads: it was cut, or its
// device fails. The kernel then sends SIGBUS to whichever thread touches the page. Here that ends
// neither the process nor the thread: the rest of the mapping is replaced by zeros, the fault is
// noted, and whoever computed with it is to look (Broken()) before it gives anything out.
//
// The handler is installed with the first guard and stays. A SIGBUS elsewhere is what it was
// before: the process ends by it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>

namespace rouse::loader {

class MappingGuard {
 public:
  // Guards [address, address + bytes), whole pages of one mapping. At most 64 at a time in a
  // process; null when there are more. Any thread.
  static std::unique_ptr<MappingGuard> Over(const std::byte* address, int64_t bytes);
  virtual ~MappingGuard() = default;  // before the memory is unmapped

  // Whether a page of it could not be read; then everything from there on is zeros. Any thread; a
  // load of one atomic.
  virtual bool Broken() const = 0;
  // Where, from the mapping's beginning.
  virtual std::optional<int64_t> BrokenAt() const = 0;
};

}  // namespace rouse::loader
