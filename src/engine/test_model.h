// The real model that tests of this folder run on.
#pragma once

#include <sys/stat.h>

#include <cstdlib>
#include <string>

namespace rouse::engine {

// $ROUSE_TEST_MODEL, else the default model in the cache, else "".
inline std::string TestModelPath() {
  const auto exists = [](const std::string& path) {
    struct stat info = {};
    return stat(path.c_str(), &info) == 0;
  };
  const auto env = [](const char* name) {
    const char* value = std::getenv(name);
    return std::string(value == nullptr ? "" : value);
  };
  if (const std::string given = env("ROUSE_TEST_MODEL"); !given.empty()) return given;
  std::string cache = env("ROUSE_CACHE");
  if (cache.empty() && !env("XDG_CACHE_HOME").empty()) cache = env("XDG_CACHE_HOME") + "/rouse";
  if (cache.empty()) cache = env("HOME") + "/.cache/rouse";
  const std::string path = cache + "/models/SmolLM2-135M-Instruct.Q4_1.gguf";
  return exists(path) ? path : "";
}

}  // namespace rouse::engine

// Ends a test as skipped, with the reason, where the model is not there.
#define ROUSE_NEED_MODEL(path)                               \
  const std::string path = ::rouse::engine::TestModelPath(); \
  if (path.empty()) GTEST_SKIP() << "no model: set ROUSE_TEST_MODEL or run ./dev run once"
