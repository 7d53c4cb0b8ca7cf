// What a run of one of the presets was made to find out, beside its ladder: the time that was
// required after idling, what a storage tier gives, how TTFT grows with the prompt, under load, and
// with another KV cache. All numbers are the report's own.

import { h } from "./dom";
import { bytes, duration, percent, quantity, significant } from "./format";
import { atLeast, numberOf, type Estimate, type Report, type Value } from "./data";
import type { Section } from "./comparison";

type Cell = Node | string | number | null;

/** A small table; the first column names its rows. */
function table(caption: string, titles: string[], rows: Cell[][]): HTMLElement {
  return h("div", { class: "scroll", tabindex: 0, role: "region", "aria-label": caption }, h("table", { class: "small-table" }, h("caption", {}, caption),
    h("thead", {}, h("tr", {}, titles.map((title, at) => h("th", { scope: "col", class: at > 0 ? "n" : null }, title)))),
    h("tbody", {}, rows.map((row) => h("tr", {}, row.map((cell, at) => (at === 0 ? h("th", { scope: "row" }, cell) : h("td", { class: "n" }, cell ?? "–"))))))));
}

function estimate(value: Estimate | undefined): string {
  const limit = atLeast(value);
  return limit !== undefined ? `≥ ${duration(limit)}` : duration(numberOf(value));
}

const rate = (value: Value | undefined): string => (value === null || value === undefined ? "–" : `${bytes(value)}/s`);

interface Bound { ttft_ns: number; n: number; confidence: number; share_ci: [number, number]; condition?: string }
interface Requirement {
  required_ttft_ns: number;
  word: string;
  reason: string;
  bound: Bound | null;
  conditions: { name: string; n: number; failures: number; held: boolean | null; median_ns: Estimate; bound: Bound | null; layers: Record<string, (number | string | null)[]> }[];
  guards: { name: string; unit: string; worst: Value; limit: number; held: boolean | null; null_reason: string | null }[];
}

function layerWords(layers: Requirement["conditions"][number]["layers"]): string {
  return Object.entries(layers).map(([layer, values]) => {
    const numbers = values.filter((each): each is number => typeof each === "number");
    const words = [...new Set(values.filter((each): each is string => typeof each === "string"))];
    const [low, high] = [Math.min(...numbers), Math.max(...numbers)];
    const told = numbers.length ? (low === high ? percent(low) : `${percent(low)} – ${percent(high)}`) : words.join(" / ");
    return told ? `${layer.replaceAll("_", " ")} ${told}` : "";
  }).filter(Boolean).join(", ");
}

function requirement(found: Requirement): Section {
  const look = found.word === "warm" || found.word === "held" ? "adopt" : found.word.includes("not") || found.word === "cold" ? "reject" : "undecided";
  const { bound } = found;
  return { id: "requirement", title: "What was required", short: "Requirement", content: [
    h("p", {}, h("span", { class: `verdict ${look}` }, found.word.replaceAll("_", " ")), ` A first token within ${duration(found.required_ttft_ns)} after every idle time: ${found.reason}.`),
    bound ? h("p", { class: "remark" }, `At ${percent(bound.confidence)} confidence at least ${percent(bound.share_ci[0])} of first answers come within ${duration(bound.ttft_ns)}, the worst of ${bound.n}.`) : null,
    table("After each idle time", ["idle time", "attempts", "failed", "median", "worst", "held", "layers before the request"], found.conditions.map((each) => [each.name, each.n, each.failures,
      estimate(each.median_ns), each.bound ? duration(each.bound.ttft_ns) : "–", each.held === null ? "–" : each.held ? "✓ yes" : "✕ no", layerWords(each.layers)])),
    found.guards.length ? table("What others paid meanwhile", ["guard", "worst", "limit", "held"], found.guards.map((each) => [each.name, each.worst === null ? `not measured: ${each.null_reason ?? ""}` : quantity(each.worst, each.unit),
      quantity(each.limit, each.unit), each.held === null ? "–" : each.held ? "✓ yes" : "✕ no"])) : null,
  ] };
}

interface Tier { condition: string; path: string; storage: string; how: string; depths: Record<string, number>; possible_bytes_per_second: Value; achieved_bytes_per_second: Value; achieved_ratio: Value }

/** The share of what a tier gives that the load got, as a bar. */
function got(tier: Tier): Node | string {
  if (tier.achieved_ratio === null) return "–";
  return h("span", {}, `${rate(tier.achieved_bytes_per_second)}, ${percent(tier.achieved_ratio)} of it`);
}

function tiers(list: Tier[]): Section {
  const depths = [...new Set(list.flatMap((tier) => Object.keys(tier.depths)))].sort((a, b) => Number(a) - Number(b));
  return { id: "tiers", title: "What each storage gives", short: "Storage", content: [h("figure", {}, h("figcaption", {},
    "How fast each place can be read by itself, measured before the run with one, four and sixteen reads at once, and what the load got of the best of these. Look at the last column: far below 100 % means that the load, and not the storage, sets the pace."),
    table("Rates", ["place", "what it is", ...depths.map((depth) => `${depth} at once`), "the load got"], list.map((tier) => [h("strong", {}, tier.path), tier.storage, ...depths.map((depth) => rate(tier.depths[depth])), got(tier)])))] };
}

interface Load { condition: string; load: string | null; n: number; median_ns: Estimate; p95_ns: Estimate; max_ns: Estimate; to_base_ratio: Value; queue_share: Value; companions_failed: number; cotenant_slowdown_ratio: Value }

function loads({ rows }: { rows: Load[] }): Section {
  return { id: "load", title: "Under load", content: [h("figure", {}, h("figcaption", {}, "The same request beside others. Look at the ratio to the unloaded condition, and at how much of it was waiting in the queue."),
    table("Under load", ["condition", "load", "n", "median", "p95", "longest", "to base", "in the queue", "others slowed by"], rows.map((row) => [row.condition, row.load, row.n, estimate(row.median_ns), estimate(row.p95_ns), estimate(row.max_ns),
      row.to_base_ratio === null ? "–" : `× ${significant(row.to_base_ratio)}`, percent(row.queue_share), percent(row.cotenant_slowdown_ratio)])))] };
}

interface Kv { reference: string; same_prompts: boolean; rows: { condition: string; target_args: string; n: number; ttft_ns: Value; target_rss_bytes: Value; target_kv_bytes: Value; answers_compared: number; answers_changed: Value }[] }

function kv({ reference, rows }: Kv): Section {
  return { id: "kv", title: "KV cache", content: [h("figure", {}, h("figcaption", {}, `What each setting costs in time and memory, and how many answers differ from those of “${reference}”. Fewer bytes are worth little when answers change.`),
    table("KV cache", ["condition", "arguments", "n", "TTFT", "KV memory", "memory", "answers that differ"], rows.map((row) => [row.condition, String(row.target_args ?? ""), row.n, duration(row.ttft_ns), bytes(row.target_kv_bytes), bytes(row.target_rss_bytes),
      row.answers_changed === null ? "–" : `${row.answers_changed} of ${row.answers_compared}`])))] };
}

interface Prompts {
  lines: { prefix_cache: string; tokens_per_second: Value; points: { condition: string; n: number; tokens: number; ttft_ns: number }[] }[];
  cold_start: { condition: string; overtaken_at_tokens: Value } | null;
}

function prompts({ lines, cold_start }: Prompts): Section {
  return { id: "prompts", title: "Length of the prompt", short: "Prompt", content: [h("figure", {}, h("figcaption", {}, "How the first token moves away as the prompt grows. ",
    lines.map((line) => (line.tokens_per_second === null ? "" : `With the prefix cache ${line.prefix_cache === "hit" ? "hit" : "empty"}: ${significant(line.tokens_per_second)} tokens a second. `)).join(""),
    cold_start?.overtaken_at_tokens ? `From ${significant(cold_start.overtaken_at_tokens)} tokens on the prompt takes longer than the cold start in “${cold_start.condition}”.` : ""),
    lines.map((line) => table(`Prefix cache: ${line.prefix_cache}`, ["condition", "prompt tokens", "n", "TTFT"], line.points.map((point) => [point.condition, significant(point.tokens), point.n, duration(point.ttft_ns)]))))] };
}

/** The sections that this run has, in the order in which they are asked for. */
export function findings(report: Report): Section[] {
  const all = report as unknown as Record<string, unknown>;
  const section = <T>(name: string, make: (found: T) => Section): Section[] => (all[name] ? [make(all[name] as T)] : []);
  return [...section("requirement", requirement), ...section("tiers", tiers), ...section("prompt_summary", prompts), ...section("load_summary", loads), ...section("kv_summary", kv)];
}
