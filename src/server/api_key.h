// The server's secret: where it comes from and how it is compared.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/result.h"
#include "http/server.h"

namespace rouse::server {

// The first line of the file. kUsage for an empty one; a file that other users may read is refused
// (kPermission), as ssh does with its keys.
Result<std::string> ReadApiKeyFile(const std::string& path);

// Whether the request carries `key`, as "Authorization: Bearer KEY" or "X-Api-Key: KEY". The time
// it takes does not depend on where a wrong key differs.
bool CarriesKey(const http::Request& request, std::string_view key);

}  // namespace rouse::server
