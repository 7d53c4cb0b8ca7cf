// Where and how it was measured: environment, plan, calibration, conditions' states, warnings.

import { h } from "./dom";
import { bytes, duration, metricName, words as spaced } from "./format";
import { term, type Definitions } from "./define";
import type { Comparison, Report, RunPage, Warning } from "./data";
import { verdictBadge } from "./tracks";
import { quantity } from "./format";

function fact(name: string, value: string | null, definition?: string): HTMLElement | null {
  if (value === null || value === "") return null;
  return h("div", value.length > 34 ? { class: "long" } : {}, h("dt", {}, definition ? term(name, definition) : name), h("dd", {}, value));
}

function environmentValue(name: string, value: string): string {
  if (/mtime_ns$/.test(name) && /^\d{16,19}$/.test(value)) return new Date(Number(value) / 1e6).toISOString().replace(/\.\d+Z$/, "Z");
  if (value.length > 34 && /^\w+(,\w+)+$/.test(value)) return value.replaceAll(",", ", ");
  return name.endsWith("_bytes") && /^\d+$/.test(value) ? `${bytes(Number(value))} (${value})` : value;
}

export function environment(report: Report): HTMLElement {
  return h("dl", { class: "facts" }, fact("target", report.target), fact("model", report.model), fact("started", report.started), fact("ended", report.ended),
    fact("rouse", report.rouse_version), Object.entries(report.environment).map(([name, value]) => fact(spaced(name.replace(/_ns$/, "").replace(/_bytes$/, "_size")), environmentValue(name, value))));
}

export function plan(page: RunPage): HTMLElement {
  const { report, plan_toml } = page;
  return h("div", {}, h("dl", { class: "facts" },
    fact("plan hash", report.plan_hash, "SHA-256 of the plan's canonical form, stored before the first attempt."),
    fact("seed", report.seed === null ? null : String(report.seed), "Drew the order of the conditions within each block.")),
    plan_toml ? h("details", { open: plan_toml.length < 400 }, h("summary", {}, "The whole plan"), h("pre", { tabindex: 0 }, plan_toml)) : h("p", { class: "remark" }, "This run has no plan (it was imported)."));
}

export function calibration(report: Report): HTMLElement {
  if (report.calibration.length === 0) return h("p", { class: "remark" }, "The client was not calibrated in this run.");
  const columns: [string, string][] = [["median", "median_ns"], ["p99", "p99_ns"], ["longest", "max_ns"]];
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Calibration" }, h("table", { class: "small-table" }, h("caption", {}, "The client's own delay, against a null server inside of rouse; told, never subtracted"),
    h("thead", {}, h("tr", {}, ["streams at once", "samples", ...columns.map(([title]) => title)].map((title) => h("th", { scope: "col", class: "n" }, title)))),
    h("tbody", {}, report.calibration.map((row) => h("tr", {}, h("td", { class: "n" }, row.streams), h("td", { class: "n" }, row.samples),
      columns.map(([, key]) => h("td", { class: "n" }, duration(row[key as "median_ns"]))))))));
}

export function conditionStates(report: Report): HTMLElement | null {
  const layers = [...new Set(report.conditions.flatMap((each) => Object.keys(each.state ?? {})))];
  if (layers.length === 0) return null;
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": "Declared states" }, h("table", {}, h("caption", {}, "What each condition declares; the changed layer is marked"),
    h("thead", {}, h("tr", {}, ["condition", "base", "idle", ...layers.map(spaced)].map((title) => h("th", { scope: "col" }, title)))),
    h("tbody", {}, report.conditions.map((each) => h("tr", {}, h("th", { scope: "row" }, each.name), h("td", {}, each.base ?? "–"),
      h("td", {}, each.idle_ns ? duration(each.idle_ns) : "–"),
      layers.map((layer) => h("td", {}, layer === each.changed ? h("mark", {}, `◆ ${each.state?.[layer] ?? "–"}`) : (each.state?.[layer] ?? "–"))))))));
}

export function warnings(report: Report): HTMLElement | null {
  const counts = Object.entries(report.warning_counts);
  if (counts.length === 0 && report.warnings.length === 0) return null;
  return h("ul", { class: "warnings" }, warningItems(report.warnings), counts.map(([code, count]) => h("li", {}, h("code", {}, code), ` in ${count} attempts; their entries in the table say more.`)));
}

export function warningItems(list: Warning[]): HTMLElement[] {
  return list.map((each) => h("li", {}, h("code", {}, each.code), ` ${each.message}`));
}

export function verdicts(list: Report["hypotheses"], define: Definitions): HTMLElement | null {
  if (list.length === 0) return null;
  return h("ul", { class: "verdicts" }, list.map((each) => {
    if (!("metric" in each)) return h("li", {}, each.reason);
    return verdictItem(each, define);
  }));
}

export function verdictItem(each: Comparison, define: Definitions): HTMLElement {
  return h("li", {}, verdictBadge(each.verdict), " ", h("strong", {}, each.name),
    each.expect ? h("span", { class: "wanted" }, ` wanted: ${each.statistic} of `, term(metricName(each.metric, define.unit(each.metric)), define.text(each.metric)), each.expect === "equal" ? ` to stay within ${each.margin ?? ""}` : ` to ${each.expect} by at least ${each.margin ?? ""}`) : null,
    each.reason ? h("p", {}, each.reason) : null,
    each.would_change && !each.would_change.includes((each.reason ?? "\0").replace(/^no interval: /, "")) ? h("p", { class: "remark" }, each.would_change) : null,
    each.guards.length ? h("p", { class: "remark" }, each.guards.map((guard) => `guard ${guard.guard}: ${guard.held === null ? `not measured (${guard.null_reason ?? ""})` : `${guard.held ? "held" : "failed"}, ${quantity(guard.value, "ratio")}`}`).join("; ")) : null,
    each.warnings.length ? h("ul", { class: "warnings" }, warningItems(each.warnings)) : null);
}
