// For tests: a directory tree that looks like / to the readers of os/.
#pragma once

#include <stdlib.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#include "base/check.h"
#include "os/proc_root.h"

namespace rouse::os {

class FakeRoot {
 public:
  FakeRoot() {
    std::string name = std::filesystem::temp_directory_path() / "rouse_root_XXXXXX";
    CHECK(mkdtemp(name.data()) != nullptr);
    path_ = name;
  }
  ~FakeRoot() { std::filesystem::remove_all(path_); }
  FakeRoot(const FakeRoot&) = delete;
  FakeRoot& operator=(const FakeRoot&) = delete;

  // Paths as the readers have them: "proc/meminfo".
  FakeRoot& Write(const std::string& file, std::string_view text) {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::ofstream(path_ / file, std::ios::binary) << text;
    return *this;
  }
  FakeRoot& Link(const std::string& file, const std::string& target) {
    std::filesystem::create_directories((path_ / file).parent_path());
    std::filesystem::create_symlink(target, path_ / file);
    return *this;
  }
  FakeRoot& Remove(const std::string& file) {
    std::filesystem::remove_all(path_ / file);
    return *this;
  }

  ProcRoot Open() const {
    Result<ProcRoot> root = ProcRoot::Open(path_);
    CHECK(root.ok());
    return std::move(root).value();
  }
  std::string path() const { return path_; }

 private:
  std::filesystem::path path_;
};

}  // namespace rouse::os
