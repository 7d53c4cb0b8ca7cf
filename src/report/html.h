// The report page: one self-contained HTML file that draws a run, or two runs side by side, from
// data that stands in it. The page itself is made from web/ at build and lies in this binary
// (cmake/RouseWeb.cmake); web/README.md has the shape of its data, `rouse.page/1`. Nothing here is
// drawn, and no statistic is computed that the JSON outputs do not have.
#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/result.h"
#include "report/comparison.h"
#include "results/attempt.h"
#include "results/run.h"

namespace rouse::report {

// Whether this binary holds the page; kUsage that says how to get one that does. Ask before work
// whose result is to be a page.
Status CheckPage();

// The data of a run's page, and of a comparison's. Attempts that were loaded with Detail::kSummary
// give a page without counters, lanes and proofs.
std::string PageJson(const results::Run& run, const std::vector<results::Attempt>& attempts);

struct PageSide {
  const results::Run* run = nullptr;
  std::span<const results::Attempt> attempts;  // all of the run
};
std::string ComparisonPageJson(const std::vector<Comparison>& comparisons,
                               const std::vector<std::string>& only_treatment,
                               const std::vector<std::string>& only_control,
                               const std::vector<PageSide>& sides);

// The whole file with `json` inside. Neither title nor data can break out of their elements.
Result<std::string> PageHtml(std::string_view title, std::string_view json);

// Where a page that a server sends gets its data from: paths of the server's own origin.
struct PageSource {
  std::string data;    // JSON, as PageJson() makes it
  std::string events;  // server-sent events that tell when it has changed; "": it does not change
  std::string home;    // the list of runs, to go back to; "": there is none
};
Result<std::string> PageShell(std::string_view title, const PageSource& source);

// The whole page that lists the runs: it fetches /events of the server that sends it. The same
// error as CheckPage().
Result<std::string_view> RunsPage();

// "Run 3, quick" and "Run 4 against run 3".
std::string PageTitle(const results::Run& run);
std::string PageTitle(const results::Run& treatment, const results::Run& control);

}  // namespace rouse::report
