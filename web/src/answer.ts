// The answer, in one sentence, from what C++ found: the contrasts of the explanation, ranked and
// graded there, and the summaries of the report. Text only; main.ts sets it.

import { duration, list, plural, range, signed } from "./format";
import { numberOf, type Condition, type Contrast, type Explanation, type Report } from "./data";

/** What one change costs: a line of the list below the sentence. */
export interface Cost {
  cost_ns: number;
  reason: string;
  holder: string | null; // the stage that it went to
  grade: Grade;
  condition: string; // where it was seen
}

/** Words that matter are marked by **two asterisks** on each side. */
export interface Answer {
  headline: string;
  costs: Cost[];
  details: string[];
}

export type Grade = Contrast["grade"] | "faster";

/** The grade that the explanation gave, and one that it has no word for: a change for the better. */
export function gradeOf(contrast: Contrast): Grade {
  const high = contrast.ci_ns?.[1];
  return typeof high === "number" && high < 0 ? "faster" : contrast.grade;
}

export function isSure(grade: Grade): boolean {
  return grade === "proved" || grade === "costs" || grade === "faster";
}

export function ladderOrder(contrasts: Contrast[], names: string[]): string[] {
  // Warmest first: a condition stands behind the base that it lost something of.
  const bases = new Map<string, string>();
  for (const each of contrasts) if (!bases.has(each.condition)) bases.set(each.condition, each.base);
  const depth = (name: string): number => {
    let count = 0;
    const seen = new Set<string>();
    for (let at: string | undefined = name; at !== undefined && !seen.has(at); at = bases.get(at)) {
      seen.add(at);
      count++;
    }
    return count;
  };
  return names.map((name, index) => ({ name, index, depth: depth(name) }))
    .sort((a, b) => a.depth - b.depth || a.index - b.index)
    .map((each) => each.name);
}

function failuresOf(conditions: Condition[]): { failed: number; counted: number; kinds: string[] } {
  const kinds = new Map<string, number>();
  let [failed, counted] = [0, 0];
  for (const condition of conditions) {
    counted += condition.n;
    for (const [outcome, count] of Object.entries(condition.outcomes)) {
      if (outcome === "ok" || outcome === "state_not_reached" || outcome === "interrupted") continue;
      failed += count;
      kinds.set(outcome, (kinds.get(outcome) ?? 0) + count);
    }
  }
  return { failed, counted, kinds: [...kinds].map(([name, count]) => `${count} ${name.replaceAll("_", " ")}`) };
}

function largestStage(condition: Condition, letters: Map<string, string>): string | null {
  const stages = Object.entries(condition.median_attempt?.stages_ns ?? {})
    .filter((entry): entry is [string, number] => entry[1] !== null && entry[1] > 0)
    .sort((a, b) => b[1] - a[1]);
  return stages[0] ? (letters.get(stages[0][0]) ?? stages[0][0]) : null;
}

function medianOf(conditions: Condition[], name: string): number | undefined {
  return numberOf(conditions.find((each) => each.name === name)?.ttft_ns.median);
}

/** The condition that lost nothing (without such a one: the fastest), and the slowest one. */
function ends(report: Report, contrasts: Contrast[]): { first: Condition; slow: Condition; warmest: boolean } | null {
  const known = report.conditions.filter((each) => numberOf(each.ttft_ns.median) !== undefined);
  const median = (each: Condition): number => numberOf(each.ttft_ns.median)!;
  const bySpeed = [...known].sort((a, b) => median(a) - median(b));
  const slow = bySpeed.at(-1);
  // What something was lost from, and which lost nothing itself; of several the fastest. It is none
  // when what was changed is no layer that can be lost, or when the change made it faster.
  const layers = contrasts.filter((each) => !isNamed(each) && each.layer !== "idle");
  const bases = new Set(layers.map((each) => each.base));
  const lost = new Set(layers.map((each) => each.condition));
  const warm = contrasts.some((each) => gradeOf(each) === "faster") ? undefined : bySpeed.find((each) => bases.has(each.name) && !lost.has(each.name));
  const first = warm ?? bySpeed[0];
  return first && slow && first !== slow ? { first, slow, warmest: warm !== undefined } : null;
}

/** Whether its title is only the condition's name: what it changes is no layer that can be lost. */
export function isNamed(contrast: Contrast): boolean {
  return contrast.title.startsWith('"');
}

/** "the prompt's prefix was not cached": the contrast's own title. */
export function reasonOf(contrast: Contrast): string {
  if (!isNamed(contrast)) return contrast.title;
  return `“${contrast.condition}” instead of “${contrast.base}”`;
}

/** Sure ones first and by their size; then those that may be chance. */
export function costsOf(contrasts: Contrast[], words: Map<string, string>): Cost[] {
  const rank = (grade: Grade): number => (isSure(grade) ? 0 : 1);
  const reasons = contrasts.map(reasonOf);
  const twice = (reason: string): boolean => reasons.indexOf(reason) !== reasons.lastIndexOf(reason);
  return contrasts.flatMap((each, at): Cost[] => (each.cost_ns === null ? [] : [{ cost_ns: each.cost_ns, reason: reasons[at]! + (twice(reasons[at]!) ? ` (“${each.condition}”)` : ""),
    holder: (each.holder && words.get(each.holder)) || null, grade: gradeOf(each), condition: each.condition }]))
    .sort((a, b) => rank(a.grade) - rank(b.grade) || Math.abs(b.cost_ns) - Math.abs(a.cost_ns));
}

function because(cost: Cost, named: boolean): string {
  return `**${signed(cost.cost_ns, duration)}** ` + (named ? `with ${cost.reason}` : `because ${cost.reason}`);
}

/** Why nothing is said to cost anything: chance, or too few attempts to tell. */
function unsureWords(contrasts: Contrast[]): string {
  if (contrasts.length === 0) return "";
  const told = contrasts.filter((each) => each.ci_ns !== null);
  if (told.length > 0) return " No difference is sure: each may be chance.";
  const n = Math.min(...contrasts.flatMap((each) => [each.n, each.n_base]));
  return ` Whether that is more than chance, ${n === 1 ? "one attempt" : `${n} attempts`} a condition cannot tell; 6 can.`;
}

export function answerOf(report: Report, explanation: Explanation | null, words: Map<string, string>): Answer {
  const { failed, counted, kinds } = failuresOf(report.conditions);
  const details: string[] = [];
  const notReached = report.conditions.reduce((sum, each) => sum + (each.outcomes["state_not_reached"] ?? 0), 0);
  if (counted === 0) {
    return {
      headline: notReached > 0
        ? "**No request was sent:** the wanted state was not reached in any attempt."
        : "**Nothing was measured yet:** this run has no attempts.",
      costs: [],
      details: notReached > 0 ? [`${plural(notReached, "attempt")} ended as state_not_reached; the table says why.`] : [],
    };
  }
  if (failed === counted) {
    return {
      headline: `**No first token came:** all ${plural(counted, "attempt")} failed (${list(kinds)}).`,
      costs: [],
      details: ["Failures stay in every figure: they stand at the time that somebody waited."],
    };
  }
  if (failed > 0) details.push(`**${failed} of ${counted}** attempts failed (${list(kinds)}); they rank behind every success.`);
  if (notReached > 0) details.push(`In ${plural(notReached, "attempt")} the wanted state was not reached, and no request was sent.`);

  const contrasts = explanation?.contrasts ?? [];
  const costs = costsOf(contrasts, words);
  const named = (cost: Cost): boolean => contrasts.some((each) => isNamed(each) && each.condition === cost.condition);
  const sure = costs.filter((each) => isSure(each.grade));
  const largest = sure.find((each) => each.grade === "proved") ?? sure[0];
  const both = ends(report, contrasts);
  let headline: string;
  if (both) {
    const [first, slow] = [numberOf(both.first.ttft_ns.median), numberOf(both.slow.ttft_ns.median)];
    headline = `The first token takes **${duration(first)}** at its ${both.warmest ? "warmest" : "fastest"} (“${both.first.name}”) and **${duration(slow)}** at its slowest (“${both.slow.name}”).`;
    if (largest) {
      const what = largest.grade === "faster" ? "The largest sure gain" : largest.grade === "proved" ? "The largest proved cost" : "The largest cost";
      headline += ` ${what}: ${because(largest, named(largest))}.`;
    } else {
      headline += unsureWords(contrasts);
    }
  } else {
    const only = report.conditions.find((each) => numberOf(each.ttft_ns.median) !== undefined) ?? report.conditions[0]!;
    const median = numberOf(only.ttft_ns.median);
    const stage = largestStage(only, words);
    headline = median === undefined
      ? `In “${only.name}” the median attempt failed.`
      : `The first token takes **${duration(median)}** in “${only.name}” (median of ${only.ttft_ns.n})` +
        (stage ? `, most of it **${stage}**.` : ".") +
        (contrasts.length > 0 && sure.length === 0 ? unsureWords(contrasts) : "");
  }
  const warmName = explanation?.warm.condition;
  const warmest = warmName ? medianOf(report.conditions, warmName) : undefined;
  if (explanation?.boundary && warmest !== undefined) details.push(explanation.boundary.replaceAll(/"([^"]*)"/g, "“$1”"));
  return { headline, costs, details };
}

export function intervalWords(contrast: { ci_ns: [number | null, number | null] | null; confidence: number }): string {
  if (!contrast.ci_ns) return "";
  const [low, high] = contrast.ci_ns;
  if (low === null || high === null) return "";
  return ` (${Math.round(contrast.confidence * 100)} %: ${range(duration(low), duration(high))})`;
}
