// How far a share that was estimated from a sample may be off. Pure.
#pragma once

#include <cstdint>

namespace rouse::os {

struct ShareBounds {
  double low = 0;
  double high = 1;
};

// The 95 % Clopper-Pearson interval (Biometrika 26, 1934) of a share of which `hits` of `samples`
// were seen: exact, and never too narrow, for independent samples. [0, 1] when samples is 0.
ShareBounds BoundsOfShare(int64_t hits, int64_t samples);

}  // namespace rouse::os
