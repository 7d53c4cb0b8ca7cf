// TailStream: how a mapped file that does not fit into memory is computed without thrashing. Each
// token walks through the whole file in order; the kernel gives up the pages that were not used for
// longest, which are always those that come next, so that every token reads the whole file again.
// Here the leading part stays, and of the rest (the tail) the kernel is told to give up what was
// just used, and to read what comes next. Then a token reads the tail only.
//
// Where computing is, is told by the page table: a page that the computing threads have touched is
// mapped, and what is given up is unmapped again. Whoever else maps the tail's pages through the
// same addresses (a prefetcher) must not.
//
// Measured in docs/serve.md. Gains nothing where the file fits: do not start it then.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>

#include "base/result.h"
#include "loader/prefetcher.h"

namespace rouse::loader {

struct TailPlan {
  int64_t keep_bytes = 0;  // the leading part of the mapping, which stays
  int64_t behind_bytes =
      0;                    // used last, and not yet given up: an operation reads a tensor in parts
  int64_t ahead_bytes = 0;  // read before it is used
};

// How `memory_bytes` are shared out for a mapping of `mapped_bytes`; everything is kept when it
// fits.
TailPlan PlanTail(int64_t mapped_bytes, int64_t memory_bytes);

class TailStream {
 public:
  // The mapping must outlive it. kUnsupported where /proc/self/pagemap is not there.
  static Result<std::unique_ptr<TailStream>> Start(MappedPart part, TailPlan plan);
  virtual ~TailStream() = default;  // stops and waits, milliseconds

  // It works only meanwhile. Any thread.
  virtual void SetComputing(bool computing) = 0;

  struct Report {
    int64_t passes = 0;  // times that computing came to the tail's beginning
    int64_t given_up_bytes = 0;
    int64_t ahead_bytes = 0;
  };
  virtual Report Told() const = 0;
};

}  // namespace rouse::loader
