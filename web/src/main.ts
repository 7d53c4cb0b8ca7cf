// The page: finds its data, draws it from top to bottom, answer first.

import "./base.css";
import "./running.css";
import "./style.css";
import { answerOf, isSure, ladderOrder, type Answer, type Cost } from "./answer";
import { comparisonAnswer, comparisonSections, comparisonTitle, type Section } from "./comparison";
import { Details, load, NotThere, rowsOf, type ComparisonPage, type Page, type Row, type RunPage } from "./data";
import { Definitions, installDefinitions, term } from "./define";
import { h, unbroken } from "./dom";
import { duration, plural, signed } from "./format";
import { calibration, conditionStates, environment, plan, verdicts, warnings } from "./facts";
import { findings } from "./findings";
import { attemptView } from "./lanes";
import { countersOf, countersPicture, ecdfPicture, idlePicture, orderPicture, stagesPicture, type RunData } from "./pictures";
import { allDrawn, figure, followWidth, forgetPictures, later, redrawAll } from "./plots";
import { Live, stateOf } from "./live";
import { AttemptTable, followPrint, newTableState, type TableState } from "./table";
import { themeButton } from "./theme";
import { verification } from "./verification";
import { brokenSteps, brokenWords, conditionBars, GRADES, ladder, ladderSteps, ladderTitle, losesLayers } from "./tracks";

function marked(text: string): (string | Node)[] {
  return unbroken(text).split("**").map((part, index) => (index % 2 === 1 ? h("strong", {}, part) : part));
}

function sectionOf({ id, title, content }: Section): HTMLElement {
  return h("section", { id, "aria-labelledby": `${id}-title` }, h("h2", { id: `${id}-title` }, title), content);
}

/** As many as one reads at a glance; the ladder below has them all. */
const COSTS_SHOWN = 6;

/** Each change and what it costs, the largest first: the answer for who does not read sentences. */
function costList(costs: Cost[]): HTMLElement | null {
  if (costs.length === 0) return null;
  const shown = costs.slice(0, COSTS_SHOWN);
  const rest = costs.length - shown.length;
  return h("ul", { class: "cost-list", "aria-label": "What each change costs" }, shown.map((cost) => h("li", { class: isSure(cost.grade) ? "" : "unsure" },
    h("span", { class: "amount" }, unbroken(signed(cost.cost_ns, duration))),
    h("span", {}, cost.reason, isSure(cost.grade) && cost.holder ? h("span", { class: "holder" }, ` · mostly ${cost.holder}`) : null, " ",
      h("span", { class: `grade ${cost.grade}`, "data-def": GRADES[cost.grade][1] }, GRADES[cost.grade][0])))),
    rest > 0 ? h("li", { class: "unsure" }, h("span", {}), h("span", {}, h("a", { href: "#ladder" }, `and ${rest} more`))) : null);
}

function header(kicker: (string | Node | null)[], answer: Answer): HTMLElement {
  return h("header", {}, h("div", { class: "top" }, h("p", { class: "kicker" }, kicker.filter((each) => each !== null)), themeButton(redrawAll)),
    h("h1", {}, marked(answer.headline)), costList(answer.costs), answer.details.map((each) => h("p", { class: "detail" }, marked(each))));
}

function contents(sections: Section[]): HTMLElement {
  return h("nav", { "aria-label": "Contents" }, sections.map(({ id, title, short }) => h("a", { href: `#${id}` }, short ?? title)));
}

/** What the reader has chosen: kept when a running run is drawn again. */
interface View {
  attempt: number | null;
  table: TableState;
}

// ---- one attempt ----

class AttemptSection {
  readonly element: HTMLElement;
  private readonly box = h("div", { class: "attempt-box", "aria-live": "polite" });
  private readonly input = h("input", { type: "number", min: 1, step: 1, inputmode: "numeric" });
  private at: number;

  constructor(private readonly page: RunPage, private readonly rows: Row[], private readonly details: Details, private readonly define: Definitions, first: number, private readonly view: View) {
    this.at = first;
    this.input.addEventListener("change", () => {
      const found = this.rows.find((row) => String(row.id) === this.input.value);
      if (found) void this.open(found.at);
    });
    const step = (by: number, label: string): HTMLElement => h("button", { type: "button", "aria-label": label, click: () => void this.open(Math.min(rows.length - 1, Math.max(0, this.at + by))) }, by < 0 ? "‹ before" : "next ›");
    this.element = h("figure", {}, h("figcaption", {}, "Everything that is known of one attempt, on one time axis that begins at its intended send. Look at the second row: what the request waited for, in order; rows below ran beside it. Click a dot above or an id below to open another one. Hold Ctrl and turn the wheel to zoom."),
      h("div", { class: "buttons" }, h("label", {}, "attempt ", this.input), step(-1, "Attempt before"), step(1, "Next attempt")), this.box);
    later(() => void this.show(first));
  }

  /** At the reader's wish. */
  async open(at: number): Promise<void> {
    this.view.attempt = at;
    await this.show(at);
  }

  private async show(at: number): Promise<void> {
    this.at = at;
    const attempt = await this.details.of(at);
    this.input.value = String(this.rows[at]?.id ?? "");
    this.box.replaceChildren(attempt ? attemptView(attempt, this.page.stages, this.define) : h("p", { class: "remark" }, "This report holds no details of that attempt."));
    this.box.dataset["attempt"] = String(this.rows[at]?.id ?? "");
  }
}

/** The most telling one: the median attempt of the slowest condition, else a failure, else any. */
function firstToShow(data: RunData, rows: Row[]): number {
  const slowest = [...data.conditions].reverse().find((each) => each.median_attempt);
  const id = slowest?.median_attempt?.attempts.at(-1);
  return (rows.find((row) => row.id === id && id !== null && id !== undefined) ?? rows.find((row) => row.counted && !row.ok) ?? rows[0])?.at ?? 0;
}

// ---- a run ----

function runPage(page: RunPage, define: Definitions, view: View, origin: Origin): HTMLElement[] {
  const { report, explanation } = page;
  const words = new Map(page.stages.map((stage) => [stage.name, stage.words]));
  const rows = rowsOf(page.attempts);
  const details = new Details(page.attempts);
  const contrasts = explanation?.contrasts ?? [];
  const order = ladderOrder(contrasts, report.conditions.map((each) => each.name));
  const conditions = order.map((name) => report.conditions.find((each) => each.name === name)!);
  let section: AttemptSection | null = null;
  const open = (at: number): void => {
    void section?.open(at).then(() => document.getElementById("attempt")?.scrollIntoView({ behavior: matchMedia("(prefers-reduced-motion: reduce)").matches ? "auto" : "smooth" }));
  };
  const data: RunData = { rows: rows.filter((row) => row.counted), columns: page.attempts, conditions, stages: page.stages, define, open };
  const answer = answerOf(report, explanation, words);
  const n = conditions.reduce((sum, each) => sum + each.n, 0);
  const steps = ladder(conditions, contrasts, page.stages, define);
  const some = data.rows.length > 0;
  const picture = (make: ReturnType<typeof idlePicture>): Section => ({ id: make.id, title: make.title, short: make.short, content: [figure({ ...make, id: `${make.id}-picture` })] });
  const sections: Section[] = [];
  const judged = verdicts(report.hypotheses, define);
  if (judged) sections.push({ id: "verdicts", title: "Verdicts", content: [judged] });
  if (report.verification) sections.push({ id: "verification", title: "Verification", content: [verification(report.verification)] });
  if (some) {
    sections.push({ id: "conditions", short: "Conditions", title: "What the first token waited for", content: [h("figure", {}, h("figcaption", {},
      "Median ", term("time to first token", define.text("ttft_ns")), ` of each condition${losesLayers(contrasts) ? ", warmest first," : ","} and what its median attempt was spent on. Look for the colour that grows from one row to the next. The line below a bar is the 95 % interval of the median.${brokenWords(conditions)}`),
      conditionBars(conditions, page.stages, define))] });
    if (steps) sections.push({ id: "ladder", short: "Costs", title: ladderTitle(contrasts), content: [h("figure", {}, h("figcaption", {},
      `${losesLayers(contrasts) ? "One layer is lost" : "One thing is changed"} at a time: each bar begins where the median of its base ends and is as long as the paired `, term("shift", "Hodges-Lehmann estimate of how much later the first token comes, with its interval (docs/statistics.md)"),
      `. Its colour is the stage that holds most of it. Look for the longest full bar; hatched ones may be chance.${brokenSteps(ladderSteps(conditions, contrasts))}`), steps)] });
    sections.push(...findings(report));
    sections.push(picture(idlePicture(data)), picture(ecdfPicture(data)), picture(orderPicture(data)), picture(stagesPicture(data)));
    if (countersOf(data).length > 0) sections.push(countersSection(data));
  }
  if (rows.length > 0) {
    section = new AttemptSection(page, rows, details, define, view.attempt ?? firstToShow(data, rows), view);
    sections.push({ id: "attempt", title: "One attempt", content: [section.element] });
  }
  sections.push({ id: "environment", title: "Environment", content: [environment(report), calibration(report)] },
    { id: "plan", title: "Plan", content: [plan(page), conditionStates(report), warnings(report)] });
  if (rows.length > 0) sections.push({ id: "attempts", title: "All attempts", content: [new AttemptTable({ name: `run ${report.run ?? ""} ${report.name}`, rows, columns: page.attempts, details, define, open, state: view.table }).element] });
  const kicker = [home(origin), report.run === null ? "A run" : `Run ${report.run}`, report.name ? ` · ${report.name}` : "", ` · ${report.target ?? "no target told"}`, report.model ? ` · ${report.model}` : "",
    ` · ${plural(n, "attempt")}`, report.status === "complete" ? null : h("strong", { class: "status" }, ` · ${report.status}`), ` · ${report.started.slice(0, 10)}`];
  return [header(kicker, answer), contents(sections), ...sections.map(sectionOf), next(page, origin)];
}

function countersSection(data: RunData): Section {
  const names = countersOf(data);
  const holder = h("div", {}, figure({ ...countersPicture(data, false), id: "counters-picture" }));
  const more = names.length > 6 ? h("button", { type: "button", click: () => { holder.replaceChildren(figure({ ...countersPicture(data, true), id: "counters-picture" })); more?.remove(); } }, `Show all ${names.length} counters that vary`) : null;
  return { id: "counters", short: "Counters", title: "Counters beside TTFT", content: [holder, more] };
}

function next(page: RunPage, origin: Origin): HTMLElement {
  const step = page.explanation?.next;
  return h("footer", {}, step ? h("div", { class: "next" }, h("p", {}, h("strong", {}, "Next: "), step.why), h("pre", { tabindex: 0, class: "command" }, step.command)) : null,
    h("p", { class: "remark" }, origin.served ? `Measured by rouse ${page.report.rouse_version}. “rouse report ${page.report.run ?? ""} --html FILE” writes this page as one file, to keep or to send.` : `Written by rouse ${page.report.rouse_version}. This file needs no network: data, script and style are inside of it.`));
}

/** Where the page came from: a file, or `rouse ui`. */
interface Origin {
  served: boolean;
  home: string | null;
}

function home(origin: Origin): Node | null {
  return origin.home === null ? null : h("a", { href: origin.home, class: "home" }, "‹ all runs");
}

function pageOf(page: Page, view: View, origin: Origin): HTMLElement {
  const define = new Definitions(page.catalogue);
  const main = h("main", {});
  if (page.kind === "run") {
    main.append(...runPage(page, define, view, origin));
    return main;
  }
  const comparison: ComparisonPage = page;
  const sections = comparisonSections(comparison, define);
  main.append(header([`Comparison · ${comparisonTitle(comparison)}`], comparisonAnswer(comparison)), contents(sections), ...sections.map(sectionOf),
    h("footer", {}, h("p", { class: "remark" }, "Written by rouse. This file needs no network: data, script and style are inside of it.")));
  return main;
}

/** Draws into the place of `old`, which stays in sight until every picture is there. */
async function draw(root: HTMLElement, make: () => HTMLElement, old: HTMLElement | null): Promise<HTMLElement> {
  forgetPictures();
  const main = make();
  if (!old) {
    root.prepend(main);
    return main;
  }
  main.classList.add("behind");
  root.append(main);
  await allDrawn();
  // What is read stays where it is, whatever grew above it.
  const read = [...old.querySelectorAll("section")].find((each) => each.getBoundingClientRect().bottom > 60);
  const top = read?.getBoundingClientRect().top ?? 0;
  main.classList.remove("behind");
  old.replaceWith(main);
  const same = scrollY > 0 && read ? document.getElementById(read.id) : null;
  if (same) scrollBy({ top: same.getBoundingClientRect().top - top, behavior: "instant" });
  return main;
}

function failure(error: unknown, origin: Origin): HTMLElement {
  const words = error instanceof Error ? error.message : String(error);
  const gone = error instanceof NotThere;
  return h("main", {}, h("p", { class: "kicker" }, home(origin)), h("h1", {}, gone ? "There is no such run." : "The data of this page could not be read."), h("p", { role: "alert", class: "plain-words" }, words));
}

async function start(): Promise<void> {
  const root = document.getElementById("page")!;
  const data = document.getElementById("rouse-data");
  const { source, events, home: list } = data?.dataset ?? {};
  const origin: Origin = { served: source !== undefined, home: list ?? null };
  const view: View = { attempt: null, table: newTableState() };
  followWidth();
  followPrint();
  installDefinitions(root);
  let main: HTMLElement | null = null;
  let last = "";
  const once = async (): Promise<Page | null> => {
    try {
      if (!data) throw new Error("The element “rouse-data” is missing.");
      const page = await load(data);
      const text = origin.served ? JSON.stringify(page) : "";
      if (text === "" || text !== last) main = await draw(root, () => pageOf(page, view, origin), main);
      last = text;
      return page;
    } catch (error) {
      // What was drawn before stays: the notice above it says what has become of the run.
      if (!main) root.prepend(failure(error, origin));
      return null;
    } finally {
      document.documentElement.dataset["ready"] = "yes";
    }
  };
  const page = await once();
  if (events === undefined || page?.kind !== "run" || page.report.status === "complete") return;
  const attempts = page.attempts.prime.filter((prime) => prime === 0).length;
  const live = new Live(page.report.run ?? 0, stateOf({ ...page.report, attempts }), events, async () => (await once()) !== null, () => main);
  root.prepend(live.element);
}

void start();
