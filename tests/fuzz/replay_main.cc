// Runs a libFuzzer entry without libFuzzer, as an ordinary test: over each seed file of the folders
// given, over every beginning of it, and over copies with one byte changed. It finds no new paths;
// it keeps the ones that the seeds reach from breaking, with any compiler and sanitizer.
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size);

namespace {

void RunOn(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(bytes.data()), bytes.size());
}

// Returns the number of inputs.
size_t Replay(const std::string& seed) {
  RunOn(seed);
  for (size_t length = 0; length < seed.size(); ++length) RunOn(seed.substr(0, length));
  size_t count = 1 + seed.size();
  for (size_t at = 0; at < seed.size(); ++at) {
    for (const int change : {0x01, 0x80, 0xff}) {
      std::string changed = seed;
      changed[at] = static_cast<char>(changed[at] ^ change);
      RunOn(changed);
      ++count;
    }
  }
  return count;
}

}  // namespace

int main(int argc, char** argv) {
  size_t seeds = 0;
  size_t inputs = 0;
  for (int i = 1; i < argc; ++i) {
    for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
      std::ifstream file(entry.path(), std::ios::binary);
      inputs += Replay({std::istreambuf_iterator<char>(file), {}});
      ++seeds;
    }
  }
  std::printf("%zu inputs from %zu seeds\n", inputs, seeds);
  return seeds > 0 ? 0 : 1;
}
