// Explanations as text of at most 80 columns: the answer first, its proof below it, what it was
// not, one thing to do next.
#include <algorithm>
#include <array>
#include <cmath>
#include <string>

#include "base/terminal_text.h"
#include "base/units.h"
#include "explain/explain.h"
#include "results/stage_words.h"

namespace rouse::explain {
namespace {

constexpr int kColumns = 80;
constexpr size_t kNameColumns = 18;
constexpr size_t kTimeColumns = 10;

std::string Wrap(const std::string& text, size_t indent, size_t hang) {
  return WrapText(
      text,
      {.columns = kColumns, .indent = static_cast<int>(indent), .hanging = static_cast<int>(hang)});
}

std::string Padded(std::string text, size_t columns) {
  if (text.size() < columns) text.append(columns - text.size(), ' ');
  return text;
}

std::string RightAligned(const std::string& text, size_t columns) {
  return text.size() < columns ? std::string(columns - text.size(), ' ') + text : text;
}

std::string Signed(double ns) { return (ns > 0 ? "+" : "") + Ms(ns); }

std::string LayerWords(const std::string& layer) {
  std::string words = layer;
  std::replace(words.begin(), words.end(), '_', ' ');
  return words;
}

// A name in its column, and text that wraps beside it.
std::string Row(const std::string& name, const std::string& text) {
  std::string wrapped = Wrap(text, kNameColumns + 3, kNameColumns + 3);
  wrapped.replace(0, kNameColumns + 3, "  " + Padded(name, kNameColumns) + " ");
  return wrapped;
}

std::string StagesText(const Attribution& attribution) {
  std::string text = "Where the difference is\n";
  std::vector<StageExcessRow> rows = attribution.stages;
  std::stable_sort(rows.begin(), rows.end(), [](const auto& a, const auto& b) {
    return std::fabs(a.Excess()) > std::fabs(b.Excess());
  });
  for (const StageExcessRow& row : rows) {
    // Below the client's own error nothing is worth a line.
    if (std::fabs(row.Excess()) < 1e5) continue;
    std::string words = RightAligned(Signed(row.Excess()), kTimeColumns) + "   " +
                        Ms(row.here_ns.value_or(0)) + ", usually " + Ms(row.usual_ns.value_or(0));
    if (row.source)
      words += " (source: " + std::string(results::StageSourceName(*row.source)) + ")";
    text += "  " + Padded(std::string(StageWords(row.stage)), kNameColumns) + " " + words + "\n";
  }
  return text;
}

std::string ClaimText(const Claim& claim, const std::string& lead) {
  const CauseRow& row = RowOf(claim.cause);
  return Wrap(lead + std::string(row.title) + ", " + Signed(claim.claimed_ns), 2, 4) +
         Wrap(claim.sentence + ".", 4, 4);
}

std::string AsideText(const std::string& title, const std::vector<Claim>& claims) {
  if (claims.empty()) return "";
  std::string text = title + "\n";
  for (const Claim& claim : claims) {
    std::string name(RowOf(claim.cause).name);
    std::replace(name.begin(), name.end(), '_', ' ');
    text += Row(name, claim.sentence);
  }
  return text;
}

std::string CausesText(const AttemptExplanation& explanation) {
  const Attribution& attribution = *explanation.attribution;
  std::string text;
  if (explanation.within_reference) {
    text += Wrap("No cause is needed: the reference itself varies that much.", 0, 0);
  } else if (attribution.claims.empty()) {
    text += Wrap("No evidence of a cause was found for this difference.", 0, 0);
  } else if (!explanation.proved_by.empty()) {
    text += "Cause, proved by the contrast " + explanation.proved_by + "\n";
  } else {
    text += "What the evidence points to (a contrast would prove it)\n";
  }
  int place = 0;
  for (const Claim& claim : attribution.claims) {
    text += ClaimText(claim, std::to_string(++place) + ". ");
  }
  if (!explanation.within_reference) {
    text += "  Unattributed: " + Ms(attribution.unattributed_ns) + " of " +
            Ms(attribution.excess_ns) + ".\n";
    text += AsideText("There, but it cost nothing worth naming", attribution.without_cost);
    text += AsideText("Ruled out", attribution.ruled_out);
    text += AsideText("Not to be told from this attempt", attribution.unknown);
  }
  return text;
}

std::string LayersText(const std::vector<LayerRow>& layers) {
  std::string text;
  for (const LayerRow& row : layers) {
    if (!row.cold && !row.changed) continue;
    std::string words = row.cold ? "cold" : "changed";
    const std::array<std::pair<const char*, const std::string*>, 3> moments = {
        {{"before", &row.before}, {"at the send", &row.at_send}, {"after", &row.after}}};
    for (const auto& [moment, value] : moments) {
      if (!value->empty()) words += std::string(", ") + moment + " " + *value;
    }
    if (!row.usual.empty()) words += "; usually " + row.usual;
    if (!row.proof.empty()) words += " (" + row.proof + ")";
    text += Row(LayerWords(row.layer), words);
  }
  return text.empty() ? "No layer was cold by proof.\n"
                      : "Layers that were cold, by proof\n" + text;
}

std::string NextText(const NextStep& next) {
  return "\n" + Wrap(next.why, 0, 0) + (next.command.find('\n') == std::string::npos ? "  " : "") +
         next.command + "\n";
}

std::string Interval(const stats::Shift& cost) {
  if (!cost.ci) return cost.reason.empty() ? "no interval" : "no interval: " + cost.reason;
  const auto end = [](double ns) { return std::isfinite(ns) ? Signed(ns) : "no bound"; };
  return "95 % interval " + end(cost.ci->low) + " ... " + end(cost.ci->high);
}

std::string Counted(const Contrast& contrast) {
  return std::to_string(contrast.n_condition) + " against " + std::to_string(contrast.n_base);
}

std::string ContrastText(const Contrast& contrast) {
  const stats::Shift& cost = contrast.cost;
  const std::string value =
      cost.value && std::isfinite(*cost.value) ? Signed(*cost.value) : "not known";
  std::string text =
      Wrap(value + "  " + contrast.title + "  (" + Interval(cost) + "; " + Counted(contrast) + ")",
           2, 4);
  if (!contrast.why_not_proved.empty())
    text += Wrap("Not proved: " + contrast.why_not_proved + ".", 4, 4);
  std::string stages;
  for (const StageExcessRow& row : contrast.attribution.stages) {
    if (row.Excess() < 0.1 * contrast.attribution.excess_ns || row.Excess() < 1e6) continue;
    stages += (stages.empty() ? "" : ", ") + std::string(StageWords(row.stage)) + " " +
              Signed(row.Excess());
  }
  if (!stages.empty()) text += Wrap("of it: " + stages, 4, 4);
  for (const Claim& claim : contrast.attribution.claims) {
    text += Wrap(claim.sentence + ".", 4, 4);
    break;
  }
  if (contrast.layer == "idle") {
    for (const std::string& lost : contrast.lost_layers) {
      text += Wrap("lost meanwhile: " + lost, 4, 4);
    }
  }
  return text;
}

std::string Graded(const RunExplanation& explanation, Grade grade, const std::string& title) {
  std::string text;
  for (const Contrast& contrast : explanation.contrasts) {
    if (contrast.grade == grade) text += ContrastText(contrast);
  }
  return text.empty() ? "" : "\n" + title + "\n" + text;
}

}  // namespace

std::string ExplanationText(const AttemptExplanation& explanation) {
  const Reference& reference = explanation.reference;
  const std::string who = "Attempt " + std::to_string(explanation.run) + "#" +
                          std::to_string(explanation.attempt) + ", \"" + explanation.condition +
                          "\": ";
  std::string text;
  if (!explanation.ttft_ns) {
    text = Wrap(who + "no first token (" + std::string(results::OutcomeName(explanation.outcome)) +
                    (explanation.outcome_detail.empty() ? "" : ": " + explanation.outcome_detail) +
                    ").",
                0, 2);
  } else if (!explanation.excess_ns) {
    text = Wrap(who + "first token after " + Ms(*explanation.ttft_ns) +
                    ". There is no other attempt to compare it with.",
                0, 2);
  } else {
    text = Wrap(who + "first token after " + Ms(*explanation.ttft_ns) + ", usually " +
                    Ms(*reference.profile.ttft_ns) + " (" + reference.why + ", \"" +
                    reference.condition + "\", median of " +
                    std::to_string(reference.profile.with_ttft) +
                    "): " + Signed(*explanation.excess_ns) + ".",
                0, 2);
  }
  if (explanation.attribution) {
    text += "\n" + StagesText(*explanation.attribution) + "\n" + CausesText(explanation);
  }
  text += "\n" + LayersText(explanation.layers);
  if (!explanation.reading.empty()) text += Wrap(explanation.reading, 0, 0);
  if (!explanation.clocks.empty()) text += Wrap(explanation.clocks, 0, 0);
  if (!explanation.boundary.empty()) text += "\n" + Wrap(explanation.boundary, 0, 0);
  return text + NextText(explanation.next);
}

std::string ExplanationText(const RunExplanation& explanation) {
  std::string head = "Run " + std::to_string(explanation.run) +
                     (explanation.name.empty() ? "" : ", " + explanation.name);
  if (!explanation.target.empty()) head += " on " + explanation.target;
  head += ", " + std::to_string(explanation.attempts) + " attempts.";
  if (explanation.failed > 0) head += " " + std::to_string(explanation.failed) + " failed.";
  if (explanation.not_reached > 0) {
    head += " " + std::to_string(explanation.not_reached) + " never reached their state.";
  }
  std::string text = Wrap(head, 0, 0);
  text += Graded(explanation, Grade::kProved, "Causes, proved by contrast (one layer changed)");
  text += Graded(explanation, Grade::kCosts, "Costs time, the cause is not isolated");
  text += Graded(explanation, Grade::kNoCost, "No cost that is sure");
  text += Graded(explanation, Grade::kUndecided, "Not decided");
  if (explanation.contrasts.empty()) {
    text += "\n" + Wrap(
                       "No condition of this run has a base, so no contrast says what a layer "
                       "costs. rouse explain RUN#ATTEMPT compares one attempt with the others.",
                       0, 0);
  }
  if (!explanation.contrasts.empty()) {
    text += "\n" + Wrap("Each interval is a 95 % one by itself. Clocks could explain at most " +
                            Ms(kClockRampNs) + " of any difference.",
                        0, 0);
  }
  if (!explanation.boundary.empty()) text += "\n" + Wrap(explanation.boundary, 0, 0);
  return text + NextText(explanation.next);
}

std::string ExplanationText(const ServerExplanation& explanation) {
  std::string text = Wrap(explanation.url + ": " + explanation.headline, 0, 2);
  for (const ServerFinding& finding : explanation.findings) {
    text += Row(finding.cold ? "cold" : "not cold", finding.sentence);
  }
  if (!explanation.cannot_tell.empty()) text += "Not to be told without a request\n";
  for (const std::string& sentence : explanation.cannot_tell) text += Wrap(sentence, 2, 4);
  return text + NextText(explanation.next);
}

}  // namespace rouse::explain
