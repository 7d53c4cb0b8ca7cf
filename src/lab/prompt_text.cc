#include "lab/prompt_text.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdlib>

#include "lab/schedule.h"

namespace rouse::lab {
namespace {

// Of ordinary English in today's vocabularies; only for a server that does not count.
constexpr double kTokensPerWord = 1.3;
constexpr int64_t kTokensAround = 40;  // template, salt and question
constexpr int kAsksLimit = 8;
constexpr uint64_t kTextSeed = 20'261;

constexpr std::array<std::string_view, 24> kPeople = {"the baker",
                                                      "an old sailor",
                                                      "my neighbour",
                                                      "the young engineer",
                                                      "a tired nurse",
                                                      "the librarian",
                                                      "our gardener",
                                                      "the watchmaker",
                                                      "a quiet child",
                                                      "the mountain guide",
                                                      "the bus driver",
                                                      "an honest lawyer",
                                                      "the carpenter",
                                                      "a visiting cousin",
                                                      "the night guard",
                                                      "the apprentice",
                                                      "a retired teacher",
                                                      "the beekeeper",
                                                      "the ferryman",
                                                      "a careful painter",
                                                      "the clockmaker's daughter",
                                                      "a travelling musician",
                                                      "the village doctor",
                                                      "the postman"};
constexpr std::array<std::string_view, 24> kDeeds = {
    "carried",    "repaired", "forgot",    "painted",    "borrowed", "measured",
    "described",  "sold",     "hid",       "discovered", "cleaned",  "photographed",
    "wrapped",    "lost",     "inherited", "rebuilt",    "weighed",  "returned",
    "remembered", "sketched", "bought",    "promised",   "lifted",   "guarded"};
constexpr std::array<std::string_view, 24> kThings = {
    "a copper kettle",       "the broken ladder",    "two boxes of apples", "an unfinished letter",
    "the blue bicycle",      "a map of the harbour", "the garden gate",     "a heavy wooden chest",
    "some winter coats",     "the church bell",      "a basket of eggs",    "an expensive violin",
    "the last train ticket", "a roll of wire",       "the family album",    "a jar of honey",
    "the window frames",     "a bundle of letters",  "the stone bench",     "three clay pots",
    "a silver whistle",      "the kitchen table",    "a pair of boots",     "the water pump"};
constexpr std::array<std::string_view, 24> kPlaces = {
    "behind the station",   "near the old mill",    "under the bridge",
    "in the upper village", "beside the canal",     "at the edge of the wood",
    "on the market square", "across the bay",       "in a rented room",
    "along the coast road", "above the bakery",     "at the border",
    "inside the workshop",  "by the lighthouse",    "in the school yard",
    "next to the fountain", "on the second floor",  "outside the city walls",
    "in the greenhouse",    "at the ferry landing", "between two hills",
    "below the dam",        "in the empty theatre", "at home"};
constexpr std::array<std::string_view, 16> kTimes = {
    "Last spring",        "On a rainy Tuesday",  "Before breakfast",  "Many years ago",
    "During the harvest", "At midnight",         "After the concert", "In early October",
    "One quiet morning",  "Shortly before noon", "During the strike", "On the longest day",
    "While it snowed",    "Towards evening",     "In the same week",  "On his birthday"};
constexpr std::array<std::string_view, 16> kEnds = {
    "because nobody else would do it",   "although the weather was getting worse",
    "and never spoke about it again",    "which surprised everybody in the room",
    "so the meeting began an hour late", "while the others were still asleep",
    "and paid for it with a gold coin",  "before anyone could say a word",
    "as if nothing had happened",        "until the lamps went out",
    "and laughed about the mistake",     "since there was plenty of time",
    "but kept the receipt for later",    "with the help of two strangers",
    "and wrote down every detail",       "though it took most of the day"};

template <size_t size>
std::string_view Pick(const std::array<std::string_view, size>& from, SplitMix64& random) {
  return from.at(static_cast<size_t>(random.Below(size)));
}

std::string Sentence(SplitMix64& random) {
  std::string text(Pick(kTimes, random));
  text += " " + std::string(Pick(kPeople, random)) + " " + std::string(Pick(kDeeds, random)) + " " +
          std::string(Pick(kThings, random)) + " " + std::string(Pick(kPlaces, random));
  if (random.Below(2) == 0) text += ", " + std::string(Pick(kEnds, random));
  return text + ".";
}

}  // namespace

std::string PromptText(int64_t words) {
  SplitMix64 random(kTextSeed);
  std::string text;
  int64_t count = 0;
  while (count < words) {
    const std::string sentence = Sentence(random);
    size_t from = 0;
    while (count < words && from < sentence.size()) {
      const size_t blank = std::min(sentence.find(' ', from), sentence.size());
      if (!text.empty()) text += ' ';
      text.append(sentence, from, blank - from);
      from = blank + 1;
      ++count;
    }
  }
  return text;
}

std::string LongPrompt(int64_t words, std::string_view question) {
  if (words == 0) return std::string(question);
  return PromptText(words) + "\n\n" + std::string(question);
}

int64_t PromptTolerance(int64_t wanted_tokens) { return std::max<int64_t>(4, wanted_tokens / 100); }

Result<PromptLengths::Found> PromptLengths::Find(int64_t wanted_tokens, const Count& count) {
  const auto known = found_.find(wanted_tokens);
  if (known != found_.end()) return known->second;
  Found best;
  for (int ask = 0; ask < kAsksLimit; ++ask) {
    // The two counts that lie next to the wanted one tell how many words it needs.
    int64_t words = 0;
    if (!counted_.empty()) {
      const auto first = counted_.begin();
      const auto last = std::prev(counted_.end());
      double per_word = kTokensPerWord;
      if (last->first > first->first) {
        per_word = static_cast<double>(last->second - first->second) /
                   static_cast<double>(last->first - first->first);
      }
      auto nearest = first;
      for (auto each = counted_.begin(); each != counted_.end(); ++each) {
        if (std::abs(each->second - wanted_tokens) < std::abs(nearest->second - wanted_tokens)) {
          nearest = each;
        }
      }
      const double missing = static_cast<double>(wanted_tokens - nearest->second);
      words = nearest->first + std::llround(missing / std::max(per_word, 0.5));
      words = std::max<int64_t>(words, 0);
      if (counted_.contains(words)) words += missing > 0 ? 1 : -1;
      if (words < 0 || counted_.contains(words)) break;
    }
    ASSIGN_OR_RETURN(const std::optional<int64_t> tokens, count(words));
    if (!tokens) {
      const double rest = static_cast<double>(wanted_tokens - kTokensAround);
      best.words = std::max<int64_t>(0, std::llround(rest / kTokensPerWord));
      return found_[wanted_tokens] = best;
    }
    counted_[words] = *tokens;
    const int64_t miss = std::abs(*tokens - wanted_tokens);
    if (!best.tokens || miss < std::abs(*best.tokens - wanted_tokens)) best = {words, tokens};
    if (words == 0 && *tokens > wanted_tokens + PromptTolerance(wanted_tokens)) {
      return Error(ErrorCode::kUsage, "even the question alone has " + std::to_string(*tokens) +
                                          " tokens with its template, more than " +
                                          std::to_string(wanted_tokens));
    }
    if (miss <= std::max<int64_t>(1, PromptTolerance(wanted_tokens) / 4)) break;
  }
  return found_[wanted_tokens] = best;
}

}  // namespace rouse::lab
