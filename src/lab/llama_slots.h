// llama.cpp's server and the KV of its slots: how large a slot's prefix is as a file, by having it
// saved (POST /slots/ID?action=save) and removing the file. Not for slots that are being used.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/result.h"
#include "base/time.h"
#include "lab/control.h"

namespace rouse::lab {

struct PrefixSize {
  int64_t tokens = 0;
  int64_t bytes = 0;
};

// The directory that a command line gives with --slot-save-path; empty when there is none, or when
// it is no llama-server.
std::optional<std::string> SlotFolder(const std::vector<std::string>& words);

// Of the slot that holds most tokens. `folder` as above: the file is removed from there. kState
// when the server refuses, with its own words.
Result<PrefixSize> LargestSlotPrefix(const std::string& base_url, const std::string& folder,
                                     const ControlHeaders& headers, MonoTime deadline);

}  // namespace rouse::lab
