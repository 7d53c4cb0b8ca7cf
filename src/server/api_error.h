// Errors as the OpenAI API shows them: a status, and an object {"error": {message, type, param,
// code}}. Field names and types: https://platform.openai.com/docs/guides/error-codes
#pragma once

#include <string>
#include <string_view>

#include "base/error.h"
#include "http/server.h"

namespace rouse::server {

struct ApiError {
  int status = 400;
  std::string message;
  std::string param = {};     // the request's field at fault, or ""
  std::string code = {};      // a word for programs ("model_not_found"), or ""
  int64_t retry_after_s = 0;  // > 0: a Retry-After header
};

// {"error": {...}}, as it stands in a body or behind "data: " in a stream.
std::string ErrorJson(const ApiError& error);

http::Response ErrorResponse(const ApiError& error);

// What a load, sleep or unload that was asked for is answered with when it is done.
http::Response Success();

// What those who wait are told when the server ends.
ApiError ShuttingDown();

ApiError UnknownModel(std::string_view asked, std::string_view have);

// An engine's failure, as a client should see it: what the request caused is 400, the rest 503 or
// 500.
ApiError FromEngineError(const Error& error);

// A load's failure: whatever the engine calls it, it is never the fault of the request that waited.
ApiError FromLoadError(const Error& error);

}  // namespace rouse::server
