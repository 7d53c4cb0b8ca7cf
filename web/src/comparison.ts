// Two runs, or two conditions, side by side: verdicts, the shift of each condition, and both
// distributions on one axis.

import * as Plot from "@observablehq/plot";
import { h, s, safeText } from "./dom";
import { duration, list, metricName, quantity, range, signed, words as spaced } from "./format";
import { currentTheme } from "./looks";
import { Definitions, term } from "./define";
import { inUnit, numberOf, rowsOf, type Comparison, type ComparisonPage, type ComparisonSide } from "./data";
import { axisMarks, FRAME, axisName, figure, MUTED, placeAxis, scaleOf } from "./plots";
import { intervalText, shiftTracks } from "./tracks";
import { verdictItem, warningItems } from "./facts";
import type { Answer } from "./answer";

const COLORS = { light: ["#0b5cad", "#a85400"], dark: ["#7cc0ff", "#ffb25e"] };

export function comparisonAnswer(page: ComparisonPage): Answer {
  const { comparisons } = page.comparison;
  if (comparisons.length === 0) return { headline: "**Nothing can be compared:** no condition has attempts on both sides.", costs: [], details: [] };
  const change = (each: Comparison): string => {
    const ratio = each.ratio.value;
    return typeof ratio === "number" ? `**${signed(Math.round((ratio - 1) * 1000) / 10, (size) => `${size} %`)}**` : "**not to be told**";
  };
  const judged = comparisons.filter((each) => each.verdict);
  const count = (verdict: string): number => judged.filter((each) => each.verdict === verdict).length;
  if (comparisons.length === 1) {
    const each = comparisons[0]!;
    const verdict = each.verdict ? `**${each.verdict === "adopt" ? "Adopt" : each.verdict === "reject" ? "Reject" : "Undecided"}:** ` : "";
    return { headline: `${verdict}the ${each.statistic} of ${metricName(each.metric, each.metric.split("_").at(-1))} in “${each.treatment.condition}” is ${change(each)} against “${each.control.condition}”.`,
      costs: [], details: each.reason ? [each.reason] : [] };
  }
  const sure = comparisons.filter((each) => {
    const ci = inUnit<[number | null, number | null] | null>(each.shift, "ci");
    return ci && ((ci[0] !== null && ci[0] > 0) || (ci[1] !== null && ci[1] < 0));
  });
  const known = comparisons.some((each) => inUnit<unknown>(each.shift, "ci"));
  const headline = sure.length === 0 ? (known ? "**No condition differs for sure:** every interval of a shift holds 0." : "**No difference can be told:** there are too few attempts for an interval.")
    : `${list(sure.map((each) => `“${each.treatment.condition}” ${change(each)}`))}; ${sure.length === comparisons.length ? "all conditions differ" : "all others differ by no more than chance can do"}.`;
  return { headline, costs: [], details: judged.length ? [`Verdicts: ${count("adopt")} adopt, ${count("reject")} reject, ${count("undecided")} undecided.`] : [] };
}

interface Curve {
  side: string;
  steps: { x: number; y: number }[];
}

function curvesOf(page: ComparisonPage, each: Comparison): Curve[] {
  return ([["treatment", each.treatment], ["control", each.control]] as const).map(([side, summary]) => {
    const own = page.sides.find((one) => one.run === summary.run) ?? page.sides[0];
    if (!own) return { side, steps: [] };
    const column = own.attempts.values[each.metric] ?? [];
    const rows = rowsOf(own.attempts).filter((row) => row.counted && row.condition === summary.condition);
    const time = each.metric.endsWith("_ns");
    const values = rows.flatMap((row) => (time && !row.ok ? [] : (column[row.at] ?? []))).sort((a, b) => a - b);
    const n = rows.filter((row) => (time && !row.ok) || typeof column[row.at] === "number").length;
    return { side, steps: values.map((x, index) => ({ x, y: (index + 1) / n })) };
  });
}

/** "run 5, quick (treatment)"; of one run the conditions stand in the titles. */
function sideName(page: ComparisonPage, side: "treatment" | "control"): string {
  const [one, other] = page.sides;
  const own = side === "treatment" ? one : other;
  return own && other ? `run ${own.run ?? ""}, ${own.name} (${side})` : side;
}

function distributions(page: ComparisonPage, unit: string): HTMLElement {
  const data = page.comparison.comparisons.map((each) => ({ each, curves: curvesOf(page, each) }));
  return figure({
    id: "both", title: "Both distributions",
    caption: ["The share of attempts at or below each value. Look at the gap between the two curves, and whether it is the same at the left (the usual case) and at the right (the tail). A curve that ends below 100 % had failures."],
    alternative: () => data.map(({ each }) => `${each.treatment.condition}: median ${quantity(numberOf(each.treatment.median), unit)} against ${quantity(numberOf(each.control.median), unit)}`).join("; "),
    draw: (width) => {
      const [treatment, control] = COLORS[currentTheme()] as [string, string];
      const across = width > 820 && data.length > 1 ? 2 : 1;
      const wide = Math.floor((width - (across - 1) * 24) / across);
      const line = (stroke: string, dashes: string | null): Element => s("svg", { width: 30, height: 10, "aria-hidden": "true" }, s("line", { x1: 0, x2: 30, y1: 5, y2: 5, stroke, "stroke-width": 2.5, "stroke-dasharray": dashes }));
      const name = (side: "treatment" | "control"): string => sideName(page, side);
      const legend = h("ul", { class: "legend" }, h("li", {}, line(treatment, null), name("treatment")), h("li", {}, line(control, "5,3"), name("control")));
      return h("div", {}, legend, axisName("→", metricName(data[0]?.each.metric ?? "", unit)), h("div", { class: `smalls across-${across}` }, data.map(({ each, curves }) => {
        const axis = placeAxis(curves.flatMap((curve) => curve.steps.map((step) => step.x)), wide - 60, (value) => quantity(value, unit));
        const closed = (curve: Curve): { x: number; y: number }[] => curve.steps.length ? [{ x: curve.steps[0]!.x, y: 0 }, ...curve.steps, { x: axis.domain[1], y: curve.steps.at(-1)!.y }] : [];
        const plot = Plot.plot({ ...FRAME, width: wide, height: 190, marginLeft: 44, marginRight: 14, marginBottom: 28, marginTop: 8,
          x: scaleOf(axis), y: { domain: [0, 1], ticks: [0, 0.5, 1], tickFormat: "%", label: null, tickSize: 0 }, color: { type: "identity" },
          marks: [...axisMarks("x", axis), Plot.ruleY([0, 1], { stroke: MUTED, strokeOpacity: 0.35 }),
            curves.map((curve) => Plot.lineY(closed(curve), { x: "x", y: "y", curve: "step-after", strokeWidth: 2, stroke: curve.side === "treatment" ? treatment : control, ...(curve.side === "control" ? { strokeDasharray: "5,3" } : {}) }))] });
        plot.setAttribute("role", "img");
        plot.setAttribute("aria-label", safeText(`Distributions of ${each.treatment.condition} and ${each.control.condition}`));
        return h("div", { class: "small" }, h("h3", {}, each.name || each.treatment.condition), plot);
      })));
    },
  });
}

function valueTable(comparisons: Comparison[], unit: string): HTMLElement {
  const cell = (side: Comparison["treatment"]): HTMLElement[] => [h("td", { class: "n" }, quantity(numberOf(side.median), unit), " ", h("small", {}, intervalText(side.median_ci, unit))),
    h("td", { class: "n" }, `${side.n}${side.censored ? ` (${side.censored} failed)` : ""}`)];
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Values" }, h("table", {}, h("caption", {}, "Medians, with their intervals"),
    h("thead", {}, h("tr", {}, ["condition", "treatment", "n", "control", "n", "shift", "ratio"].map((title) => h("th", { scope: "col", class: title === "condition" ? null : "n" }, title)))),
    h("tbody", {}, comparisons.map((each) => {
      const value = inUnit<number | null>(each.shift, "value");
      const ci = inUnit<[number | null, number | null] | null>(each.shift, "ci");
      return h("tr", {}, h("th", { scope: "row" }, each.name || each.treatment.condition), cell(each.treatment), cell(each.control),
        h("td", { class: "n" }, typeof value === "number" ? signed(value, (size) => quantity(size, unit)) : (each.shift.null_reason ?? "–"),
          h("small", {}, ci && ci[0] !== null && ci[1] !== null ? ` ${range(quantity(ci[0], unit), quantity(ci[1], unit))}` : "")),
        h("td", { class: "n" }, typeof each.ratio.value === "number" ? each.ratio.value.toFixed(3) : "–"));
    }))));
}

function differences(sides: ComparisonSide[]): HTMLElement | null {
  const [one, other] = sides;
  if (!one || !other) return null;
  const facts = (side: ComparisonSide): Record<string, string> => ({ target: side.target ?? "–", model: side.model ?? "–", started: side.started, plan_hash: side.plan_hash ?? "–", ...side.environment });
  const [left, right] = [facts(one), facts(other)];
  const names = [...new Set([...Object.keys(left), ...Object.keys(right)])].filter((name) => left[name] !== right[name]);
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "What differs" }, h("table", {}, h("caption", {}, names.length ? "What differs between the two runs" : "The two runs do not differ in what was recorded"),
    h("thead", {}, h("tr", {}, ["", `treatment: run ${one.run ?? ""}`, `control: run ${other.run ?? ""}`].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, names.map((name) => h("tr", {}, h("th", { scope: "row" }, spaced(name)), h("td", {}, left[name] ?? "–"), h("td", {}, right[name] ?? "–"))))));
}

export interface Section {
  id: string;
  short?: string | undefined; // in the contents
  title: string;
  content: (Node | null)[];
}

export function comparisonSections(page: ComparisonPage, define: Definitions): Section[] {
  const { comparisons, only_treatment, only_control } = page.comparison;
  const first = comparisons[0];
  if (!first) return [];
  const unit = define.unit(first.metric);
  const only = (names: string[], side: string): HTMLElement | null => (names.length ? h("p", { class: "remark" }, `Only in the ${side}: ${list(names)}.`) : null);
  const warned = page.sides.length > 1 ? comparisons.flatMap((each) => each.warnings) : [];
  const once = [...new Map(warned.map((each) => [each.code + each.message, each])).values()];
  return [
    { id: "shifts", title: "The shift", content: [h("figure", {}, h("figcaption", {},
      "Treatment minus control: how much later (right) or earlier (left) the ", term(metricName(first.metric, unit), define.text(first.metric)),
      ` is. Look whether a whole interval lies on one side of 0${first.expect ? ", and of the margin that was asked for (dotted)" : ""}.`), shiftTracks(comparisons, define)),
      only(only_treatment, "treatment"), only(only_control, "control")] },
    { id: "verdicts", title: "Verdicts", content: first.expect ? [h("ul", { class: "verdicts" }, comparisons.map((each) => verdictItem({ ...each, warnings: [] }, define)))] : [] },
    { id: "distributions", title: "Both distributions", content: [distributions(page, unit)] },
    { id: "values", title: "The values", content: [valueTable(comparisons, unit)] },
    { id: "environment", title: "Environment", content: [once.length ? h("ul", { class: "warnings" }, warningItems(once)) : null, differences(page.sides)] },
  ].filter((section) => section.content.some((each) => each !== null));
}

export function comparisonTitle(page: ComparisonPage): string {
  const [one, other] = page.sides;
  const name = (side: ComparisonSide | undefined): string => (side ? `run ${side.run ?? ""}, ${side.name}` : "");
  return other ? `${name(one)} against ${name(other)}` : `Conditions of ${name(one)}`;
}

export { duration };
