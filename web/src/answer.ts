// The answer, in one sentence, from what C++ found: the contrasts of the explanation, ranked and
// graded there, and the summaries of the report. Text only; main.ts sets it.

import { duration, list, plural, range } from "./format";
import { numberOf, type Condition, type Contrast, type Explanation, type Report } from "./data";

/** Words that matter are marked by **two asterisks** on each side. */
export interface Answer {
  headline: string;
  details: string[];
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

/** The condition that lost nothing (without contrasts: the fastest), and the slowest one. */
function ends(report: Report, contrasts: Contrast[]): { first: Condition; slow: Condition; warmest: boolean } | null {
  const known = report.conditions.filter((each) => numberOf(each.ttft_ns.median) !== undefined);
  const median = (each: Condition): number => numberOf(each.ttft_ns.median)!;
  const bySpeed = [...known].sort((a, b) => median(a) - median(b));
  const slow = bySpeed.at(-1);
  // What something was lost from, and which lost nothing itself; of several the fastest.
  const bases = new Set(contrasts.map((each) => each.base));
  const lost = new Set(contrasts.map((each) => each.condition));
  const warm = bySpeed.find((each) => bases.has(each.name) && !lost.has(each.name));
  const first = warm ?? bySpeed[0];
  return first && slow && first !== slow ? { first, slow, warmest: warm !== undefined } : null;
}

/** Whether its title is only the condition's name: what it changes is no layer that can be lost. */
export function isNamed(contrast: Contrast): boolean {
  return contrast.title.startsWith('"');
}

/** "because the prompt's prefix was not cached": the contrast's own title. */
function costSentence(contrast: Contrast, words: Map<string, string>): string {
  const holder = contrast.holder ? words.get(contrast.holder) : undefined;
  const why = isNamed(contrast) ? `in “${contrast.condition}”, which differs in ${contrast.layer_name}` : `because ${contrast.title}`;
  return `**+${duration(contrast.cost_ns)}** ${why}` + (holder ? `, mostly ${holder}` : "");
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
      details: notReached > 0 ? [`${plural(notReached, "attempt")} ended as state_not_reached; the table says why.`] : [],
    };
  }
  if (failed === counted) {
    return {
      headline: `**No first token came:** all ${plural(counted, "attempt")} failed (${list(kinds)}).`,
      details: ["Failures stay in every figure: they stand at the time that somebody waited."],
    };
  }
  if (failed > 0) details.push(`**${failed} of ${counted}** attempts failed (${list(kinds)}); they rank behind every success.`);
  if (notReached > 0) details.push(`In ${plural(notReached, "attempt")} the wanted state was not reached, and no request was sent.`);

  const contrasts = explanation?.contrasts ?? [];
  const costly = contrasts.filter((each) => (each.grade === "proved" || each.grade === "costs") && (each.cost_ns ?? 0) > 0)
    .sort((a, b) => Number(b.grade === "proved") - Number(a.grade === "proved") || (b.cost_ns ?? 0) - (a.cost_ns ?? 0));
  const both = ends(report, contrasts);
  let headline: string;
  if (both) {
    const [first, slow] = [numberOf(both.first.ttft_ns.median), numberOf(both.slow.ttft_ns.median)];
    headline = `The first token comes after **${duration(first)}** in “${both.first.name}”, the ${both.warmest ? "warmest" : "fastest"}, and after ` +
      `**${duration(slow)}** in “${both.slow.name}”, the slowest.`;
    if (costly[0]) {
      headline += ` ${costly[0].grade === "proved" ? "The largest proved cost" : "The largest cost"}: ${costSentence(costly[0], words)}.`;
    } else if (contrasts.length > 0) {
      headline += " No layer's cost is sure: every interval holds 0.";
    }
  } else {
    const only = report.conditions.find((each) => numberOf(each.ttft_ns.median) !== undefined) ?? report.conditions[0]!;
    const median = numberOf(only.ttft_ns.median);
    const stage = largestStage(only, words);
    headline = median === undefined
      ? `In “${only.name}” the median attempt failed.`
      : `The first token comes after **${duration(median)}** in “${only.name}” (median of ${only.ttft_ns.n})` +
        (stage ? `, most of it **${stage}**.` : ".") +
        (contrasts.length > 0 && costly.length === 0 ? " Nothing that was changed costs anything for sure." : "");
  }
  for (const each of costly.slice(1, 3)) {
    details.push(`Then ${costSentence(each, words)}${intervalWords(each)}.`);
  }
  const unsure = contrasts.filter((each) => each.grade === "no_cost" || each.grade === "undecided");
  if (unsure.length > 0 && costly.length > 0) {
    const layers = new Set(unsure.map((each) => each.layer_name));
    for (const each of costly) layers.delete(each.layer_name);
    if (layers.size > 0) details.push(`Not sure to cost anything here: ${list([...layers])}.`);
  }
  const warmName = explanation?.warm.condition;
  const warmest = warmName ? medianOf(report.conditions, warmName) : undefined;
  if (explanation?.boundary && warmest !== undefined) details.push(explanation.boundary);
  return { headline, details };
}

export function intervalWords(contrast: { ci_ns: [number | null, number | null] | null; confidence: number }): string {
  if (!contrast.ci_ns) return "";
  const [low, high] = contrast.ci_ns;
  if (low === null || high === null) return "";
  return ` (${Math.round(contrast.confidence * 100)} %: ${range(duration(low), duration(high))})`;
}
