// The cases of a run that made faults on purpose: what was done, whether it passed, and the evidence.

import { h } from "./dom";
import { duration, words as spaced } from "./format";
import type { Verification, VerificationCase } from "./data";

const KINDS: [VerificationCase["kind"], string][] = [["benefit", "benefit"], ["refused", "refusal"], ["recovery", "recovery"]];
const VERDICTS: Record<Verification["verdict"], string> = {
  passed: "Passed: the benefit and its boundaries were seen.",
  failed: "Failed: at least one case did not hold.",
  not_shown: "Not shown: nothing failed, but not all of benefit, refusal and recovery were seen.",
  interrupted: "Not complete: cases are still to be run.",
};

function row(each: VerificationCase, kind: string): HTMLElement {
  const time = each.took_ns === null || each.took_ns === undefined ? "–" : duration(Number(each.took_ns));
  return h("tr", {}, h("th", { scope: "row" }, each.name), h("td", {}, kind), h("td", {}, h("span", { class: `verdict case-${each.status}` }, spaced(each.status))),
    h("td", {}, time), h("td", {}, each.bound_ns ? duration(Number(each.bound_ns)) : "–"),
    h("td", {}, each.detail, each.does ? h("details", {}, h("summary", {}, "What was done"), h("p", {}, `Done: ${each.does}.`), h("p", {}, `Passes when: ${each.expects}.`), h("p", {}, `Nothing lost: ${each.nothing_lost}.`)) : null));
}

export function verification({ verdict, cases }: Verification): HTMLElement {
  const rows = KINDS.flatMap(([kind, words]) => cases.filter((each) => each.kind === kind).map((each) => row(each, words)));
  return h("figure", {}, h("figcaption", {}, h("strong", {}, VERDICTS[verdict]), " Look first at what failed, then at what was left out: that was not seen."),
    h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Cases" }, h("table", { class: "cases" },
      h("thead", {}, h("tr", {}, ["case", "kind", "result", "took", "bound", "evidence"].map((title) => h("th", { scope: "col" }, title)))), h("tbody", {}, rows))));
}
