#include "server/api_error.h"

#include <nlohmann/json.hpp>

#include "server/json_text.h"

namespace rouse::server {
namespace {

std::string_view TypeOf(int status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    case 429:
      return "rate_limit_error";
    case 503:
      return "unavailable_error";
    default:
      return status >= 500 ? "server_error" : "invalid_request_error";
  }
}

}  // namespace

std::string ErrorJson(const ApiError& error) {
  nlohmann::ordered_json object;
  object["message"] = error.message;
  object["type"] = TypeOf(error.status);
  object["param"] = nullptr;
  object["code"] = nullptr;
  if (!error.param.empty()) object["param"] = error.param;
  if (!error.code.empty()) object["code"] = error.code;
  return Dump({{"error", std::move(object)}});
}

http::Response ErrorResponse(const ApiError& error) {
  http::Response response;
  response.status = error.status;
  response.body = ErrorJson(error);
  if (error.retry_after_s > 0) {
    response.headers.push_back({"Retry-After", std::to_string(error.retry_after_s)});
  }
  if (error.status == 401) response.headers.push_back({"WWW-Authenticate", "Bearer"});
  return response;
}

http::Response Success() {
  http::Response response;
  response.body = "{\"success\":true}";
  return response;
}

ApiError ShuttingDown() {
  return {.status = 503, .message = "the server is shutting down", .code = "shutting_down"};
}

ApiError UnknownModel(std::string_view asked, std::string_view have) {
  return {.status = 404,
          .message = "there is no model \"" + std::string(asked) + "\" here; this server has \"" +
                     std::string(have) + "\"",
          .param = "model",
          .code = "model_not_found"};
}

ApiError FromEngineError(const Error& error) {
  ApiError shown;
  shown.message = error.message();
  switch (error.code()) {
    case ErrorCode::kUsage:
    case ErrorCode::kUnsupported:
      shown.status = 400;
      break;
    case ErrorCode::kNotFound:
    case ErrorCode::kPermission:
    case ErrorCode::kCorrupt:
    case ErrorCode::kExhausted:
    case ErrorCode::kState:
    case ErrorCode::kInterrupted:
      shown.status = 503;
      break;
    default:
      shown.status = 500;
  }
  return shown;
}

ApiError FromLoadError(const Error& error) { return {.status = 503, .message = error.message()}; }

}  // namespace rouse::server
