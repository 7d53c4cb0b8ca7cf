// The parser behind ReadHeader and ParseHeader: bytes in, validated Header out.
#pragma once

#include <string>

#include "base/result.h"
#include "gguf/cursor.h"
#include "gguf/header.h"

namespace rouse::gguf {

// `name` stands for the file in errors. The file has at least one byte.
Result<Header> Parse(ByteSource& source, int64_t file_bytes, const std::string& name);

}  // namespace rouse::gguf
