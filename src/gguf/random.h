// Counter-based random numbers (SplitMix64): the n-th number depends on seed and n alone, so that a
// file's bytes do not depend on how the work was cut. Not for secrets, not for statistics.
// Source: Steele, Lea, Flood, "Fast Splittable Pseudorandom Number Generators", OOPSLA 2014.
#pragma once

#include <cstdint>

namespace rouse::gguf {

constexpr uint64_t RandomAt(uint64_t seed, uint64_t index) {
  uint64_t bits = seed + (index + 1) * 0x9e3779b97f4a7c15U;
  bits = (bits ^ (bits >> 30U)) * 0xbf58476d1ce4e5b9U;
  bits = (bits ^ (bits >> 27U)) * 0x94d049bb133111ebU;
  return bits ^ (bits >> 31U);
}

class RandomStream {
 public:
  explicit RandomStream(uint64_t seed) : seed_(seed) {}

  uint64_t Next() { return RandomAt(seed_, index_++); }
  // Evenly from [0, limit); the tiny bias of 64 bits does not matter here.
  uint64_t Below(uint64_t limit) { return Next() % limit; }
  // Evenly from [0, 1).
  double Fraction() { return static_cast<double>(Next() >> 11U) * 0x1p-53; }

 private:
  uint64_t seed_;
  uint64_t index_ = 0;
};

}  // namespace rouse::gguf
