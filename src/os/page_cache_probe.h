// Which parts of a file are in the page cache, asked again and again at a cost that does not grow
// with the file: a few pages of each part are looked at. An estimate for pictures over time; what
// has to be proved is read as a whole (page_cache.h).
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/fd.h"
#include "base/result.h"

namespace rouse::os {

// Keeps the file open. One thread at a time.
class PageCacheProbe {
 public:
  // kUnsupported before Linux 6.5 (there is no cachestat), kPermission for who neither owns the
  // file nor may write it.
  static Result<PageCacheProbe> Open(const std::string& path, int parts);

  // One digit for each equal part of the file, its first byte first: 0 none of the pages looked at
  // is resident, 9 all of them, else the nearest of 1 to 8. 8 pages in the middle of each part;
  // smaller parts wholly. Touches no page. About 0.5 us a part.
  Result<std::string> Read() const;

 private:
  struct Spot {
    int64_t offset;
    int64_t bytes;
    int64_t pages;
  };
  PageCacheProbe(Fd fd, std::vector<Spot> spots) : fd_(std::move(fd)), spots_(std::move(spots)) {}

  Fd fd_;
  std::vector<Spot> spots_;
};

}  // namespace rouse::os
