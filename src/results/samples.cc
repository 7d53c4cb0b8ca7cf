#include "results/samples.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "results/json_text.h"

namespace rouse::results {
namespace {

using Json = nlohmann::json;

constexpr size_t kMostSamples = 100'000;

Error Refusal(const std::string& why) { return {ErrorCode::kUsage, why}; }

Result<std::vector<std::optional<int64_t>>> Column(const Json& list, size_t size,
                                                   const std::string& name) {
  if (!list.is_array() || list.size() != size) {
    return Refusal(name + " must be a list as long as at_ns");
  }
  std::vector<std::optional<int64_t>> column;
  column.reserve(size);
  for (const Json& value : list) {
    if (value.is_null()) {
      column.emplace_back();
    } else if (value.is_number_integer()) {
      column.emplace_back(value.get<int64_t>());
    } else {
      return Refusal(name + " must hold whole numbers or null");
    }
  }
  return column;
}

Result<std::vector<int64_t>> Times(const Json& object) {
  const auto list = object.find("at_ns");
  if (list == object.end() || !list->is_array() || list->size() > kMostSamples) {
    return Refusal("at_ns must be a list of times");
  }
  ASSIGN_OR_RETURN(const auto column, Column(*list, list->size(), "at_ns"));
  std::vector<int64_t> times;
  for (const std::optional<int64_t>& at_ns : column) {
    if (!at_ns || (!times.empty() && *at_ns < times.back())) {
      return Refusal("at_ns must hold times that do not go back");
    }
    times.push_back(*at_ns);
  }
  return times;
}

Result<std::vector<std::string>> Strips(const Json& object, size_t size) {
  std::vector<std::string> strips;
  const auto list = object.find("page_cache");
  if (list == object.end() || list->is_null()) return strips;
  if (!list->is_array() || (!list->empty() && list->size() != size)) {
    return Refusal("page_cache must be a list as long as at_ns");
  }
  for (const Json& item : *list) {
    if (!item.is_string()) return Refusal("page_cache must hold texts of digits");
    std::string digits = item.get<std::string>();
    if (digits.empty() && !strips.empty()) digits = strips.back();
    if (digits.find_first_not_of("0123456789") != std::string::npos ||
        (!strips.empty() && digits.size() != strips.back().size())) {
      return Refusal("page_cache must hold texts of equally many digits");
    }
    strips.push_back(std::move(digits));
  }
  return strips;
}

}  // namespace

double ResidentShare(std::string_view strip) {
  double sum = 0;
  for (const char digit : strip) sum += digit - '0';
  return strip.empty() ? 0 : sum / (9.0 * static_cast<double>(strip.size()));
}

std::string SamplesJson(const Samples& samples) {
  JsonText out;
  out.BeginObject();
  out.Key("at_ns");
  out.BeginArray();
  for (const int64_t at_ns : samples.at_ns) out.Int(at_ns);
  out.EndArray();
  out.Key("totals");
  out.BeginObject();
  for (const auto& [name, column] : samples.totals) {
    out.Key(name);
    out.BeginArray();
    for (const std::optional<int64_t>& value : column) out.IntOrNull(value);
    out.EndArray();
  }
  out.EndObject();
  out.Key("page_cache");
  out.BeginArray();
  for (size_t index = 0; index < samples.page_cache.size(); ++index) {
    const bool same = index > 0 && samples.page_cache[index] == samples.page_cache[index - 1];
    out.Text(same ? std::string_view() : samples.page_cache[index]);
  }
  out.EndArray();
  out.EndObject();
  return out.Take();
}

Result<Samples> ParseSamples(std::string_view json) {
  const Json object = Json::parse(json, nullptr, false);
  if (!object.is_object()) return Refusal("must be an object");
  Samples samples;
  ASSIGN_OR_RETURN(samples.at_ns, Times(object));
  const size_t size = samples.at_ns.size();
  if (const auto totals = object.find("totals"); totals != object.end()) {
    if (!totals->is_object()) return Refusal("totals must be an object");
    for (const auto& [name, list] : totals->items()) {
      ASSIGN_OR_RETURN(samples.totals[name], Column(list, size, "totals." + name));
    }
  }
  ASSIGN_OR_RETURN(samples.page_cache, Strips(object, size));
  return samples;
}

}  // namespace rouse::results
