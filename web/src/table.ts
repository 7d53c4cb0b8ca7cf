// All attempts as a table: filter, sort, download. Only the rows in sight are in the document, so
// that ten thousand of them answer within a frame.

import { download, h } from "./dom";
import { bytes, duration, fileName, percent, plural, quantity, words as spaced } from "./format";
import { term, type Definitions } from "./define";
import type { Columns, Details, Row } from "./data";

const ROW_PX = 32;
const MARGIN_ROWS = 12;

interface ColumnLook {
  key: string;
  title: string;
  definition: string;
  numeric: boolean;
  text: (row: Row) => string;
  sort: (row: Row) => number | string;
}

export interface Filter {
  text: string;
  condition: string;
  outcome: string;
}

/** Every word of the text must be in the attempt's own words, or be its "#id". */
export function matches(haystack: string, row: Row, filter: Filter): boolean {
  if (filter.condition !== "" && row.condition !== filter.condition) return false;
  if (filter.outcome === "failed" ? row.ok : filter.outcome !== "" && row.outcome !== filter.outcome) return false;
  return filter.text === "" || filter.text.toLowerCase().split(/\s+/).every((word) => {
    const id = /^#(\d+)$/.exec(word)?.[1];
    return id === undefined ? word === "" || haystack.includes(word) : String(row.id) === id;
  });
}

export function haystackOf(row: Row, columns: Columns): string {
  const detail = columns.outcome_detail[row.at] ?? "";
  return `#${row.id ?? ""} ${row.condition} ${row.outcome} ${spaced(row.outcome)} ${detail} ${row.prime ? "prime" : ""} block:${row.block ?? ""}`.toLowerCase();
}

function csvCell(text: string): string {
  // A cell that a spreadsheet would take for a formula begins with an apostrophe.
  const safe = /^[=+\-@\t\r]/.test(text) && !/^-?\d/.test(text) ? `'${text}` : text;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** RFC 4180; an empty cell is not measured. */
export function csvOf(columns: Columns, rows: Row[]): string {
  const names = Object.keys(columns.values);
  const head = ["id", "condition", "block", "position", "prime", "outcome", "outcome_detail", "cold_layers", ...names];
  const lines = rows.map((row) => {
    const cold = columns.cold_layers.filter((_, place) => (row.cold >> place) & 1).join(" ");
    return [row.id, row.condition, row.block, row.position, row.prime ? 1 : 0, row.outcome, columns.outcome_detail[row.at] ?? "", cold,
      ...names.map((name) => columns.values[name]?.[row.at])].map((cell) => csvCell(cell === null || cell === undefined ? "" : String(cell))).join(",");
  });
  return [head.map(csvCell).join(","), ...lines].join("\r\n") + "\r\n";
}

function looksOf(columns: Columns, define: Definitions, rows: Row[]): ColumnLook[] {
  const always = rows.reduce((bits, row) => bits & row.cold, rows[0]?.cold ?? 0);
  const names = (bits: number): string[] => columns.cold_layers.filter((_, place) => (bits >> place) & 1).map(spaced);
  const value = (name: string, title: string, digits = (x: number) => quantity(x, define.unit(name))): ColumnLook[] => {
    const column = columns.values[name];
    if (!column) return [];
    return [{ key: name, title, definition: define.text(name), numeric: true,
      text: (row) => { const x = column[row.at]; return x === null || x === undefined ? "–" : digits(x); },
      sort: (row) => column[row.at] ?? Infinity }];
  };
  const own = (key: string, title: string, definition: string, numeric: boolean, of: (row: Row) => number | string | null): ColumnLook =>
    ({ key, title, definition, numeric, text: (row) => String(of(row) ?? "–"), sort: (row) => of(row) ?? Infinity });
  return [
    own("id", "id", "The attempt's number within its run: rouse explain RUN#ID.", true, (row) => row.id),
    own("condition", "condition", "The state that was declared for it.", false, (row) => row.condition + (row.prime ? " (prime)" : "")),
    own("outcome", "outcome", "How it ended. All outcomes stay in the results; state_not_reached and interrupted are in no n.", false, (row) => spaced(row.outcome)),
    ...value("ttft_ns", "TTFT", duration),
    ...(columns.values["idle_ns"]?.some((each) => (each ?? 0) > 0) ? value("idle_ns", "idle", duration) : []),
    own("cold", "cold layers", `Layers that the request met cold, by proof${always && rows.length > 1 ? `; beside ${names(always).join(", ")}, cold in all of them` : ""}.`, false,
      (row) => names(rows.length > 1 ? row.cold & ~always : row.cold).join(", ") || "–"),
    ...value("page_cache_resident_ratio", "file cached", percent), ...value("target_read_bytes", "read", bytes), ...value("target_major_faults", "major faults"),
    own("block", "block", "Each block holds every condition once, in a drawn order.", true, (row) => row.block),
    own("position", "position", "Its place in the order of the run.", true, (row) => row.position),
  ];
}

/** What a reader has asked of the table. */
export interface TableState {
  filter: Filter;
  sorted: { key: string; down: boolean } | null;
}

export function newTableState(): TableState {
  return { filter: { text: "", condition: "", outcome: "" }, sorted: null };
}

export interface TableParts {
  name: string; // of the run, for file names
  rows: Row[]; // all of them, primes too
  columns: Columns;
  details: Details;
  define: Definitions;
  open: (at: number) => void;
  state: TableState;
}

/** The one that stands on the page, or will in a moment. */
let latest: AttemptTable | null = null;

/** Once a page, and not once a table: each redraw makes another one. */
export function followPrint(): void {
  addEventListener("beforeprint", () => latest?.drawForPrint(true));
  addEventListener("afterprint", () => latest?.drawForPrint(false));
}

export class AttemptTable {
  readonly element: HTMLElement;
  private readonly body = h("tbody");
  private readonly count = h("p", { class: "count", role: "status" });
  private readonly scroller: HTMLElement;
  private readonly table: HTMLTableElement;
  private readonly looks: ColumnLook[];
  private readonly haystacks: string[];
  private readonly state: TableState;
  private shown: Row[];
  private first = -1;

  constructor(private readonly parts: TableParts) {
    const { rows, columns, define, state } = parts;
    this.state = state;
    this.looks = looksOf(columns, define, rows);
    this.haystacks = rows.map((row) => haystackOf(row, columns));
    this.shown = rows;
    const select = (label: string, options: [string, string][], chosen: string, set: (value: string) => void): HTMLElement =>
      h("label", {}, label, h("select", { change: (event: Event) => { set((event.target as HTMLSelectElement).value); this.refilter(); } },
        options.map(([value, text]) => h("option", { value, selected: value === chosen }, text))));
    const head = h("tr", { "aria-rowindex": 1 }, this.looks.map((look) => h("th", { scope: "col", class: look.numeric ? "n" : null },
      h("button", { type: "button", class: "sort", "data-def": `${look.definition} Press to sort.`, click: () => this.sortBy(look) }, look.title))));
    this.table = h("table", { "aria-label": "Attempts", "aria-rowcount": rows.length + 1 }, h("thead", {}, head), this.body);
    this.scroller = h("div", { class: "scroll attempts", tabindex: 0, role: "region", "aria-label": "Attempts, scrolling" }, this.table);
    this.scroller.addEventListener("scroll", () => this.draw());
    this.element = h("div", { class: "attempt-table" },
      h("form", { class: "filters", submit: (event: Event) => event.preventDefault() },
        h("label", {}, "Filter", h("input", { type: "search", placeholder: "words, #id, block:3", value: state.filter.text, input: (event: Event) => { state.filter.text = (event.target as HTMLInputElement).value; this.refilter(); } })),
        select("Condition", [["", "all"], ...columns.conditions.map((name): [string, string] => [name, name])], state.filter.condition, (value) => { state.filter.condition = value; }),
        select("Outcome", [["", "all"], ["failed", "all but ok"], ...columns.outcomes.map((name): [string, string] => [name, spaced(name)])], state.filter.outcome, (value) => { state.filter.outcome = value; }),
        h("span", { class: "buttons" },
          h("button", { type: "button", click: () => download(`${fileName(parts.name)}.csv`, "text/csv", csvOf(columns, this.shown)) }, "CSV"),
          h("button", { type: "button", click: () => void this.saveJson() }, "JSON"))),
      this.count, this.scroller);
    new ResizeObserver(() => this.draw(true)).observe(this.scroller);
    this.refilter();
    latest = this;
  }

  /** On paper nothing scrolls: as many rows as somebody may read there. */
  drawForPrint(printing: boolean): void {
    this.draw(true, printing ? Math.min(this.shown.length, 400) : undefined);
  }

  /** How many rows the filter lets through now. */
  get size(): number {
    return this.shown.length;
  }

  private async saveJson(): Promise<void> {
    const all = await this.parts.details.all(this.shown.map((row) => row.at));
    download(`${fileName(this.parts.name)}.json`, "application/json", JSON.stringify(all, null, 1) + "\n");
  }

  private sortBy(look: ColumnLook): void {
    const { sorted } = this.state;
    this.state.sorted = { key: look.key, down: sorted?.key === look.key ? !sorted.down : false };
    this.refilter();
  }

  private refilter(): void {
    const { rows } = this.parts;
    const { filter, sorted } = this.state;
    this.shown = rows.filter((row, index) => matches(this.haystacks[index]!, row, filter));
    [...this.table.querySelectorAll("thead th")].forEach((cell, place) => {
      if (sorted && this.looks[place]?.key === sorted.key) cell.setAttribute("aria-sort", sorted.down ? "descending" : "ascending");
      else cell.removeAttribute("aria-sort");
    });
    const look = this.looks.find((each) => each.key === sorted?.key);
    if (sorted && look) {
      const { down } = sorted;
      const keys = new Map(this.shown.map((row) => [row, look.sort(row)]));
      this.shown.sort((a, b) => {
        const [left, right] = [keys.get(a)!, keys.get(b)!];
        return (left < right ? -1 : left > right ? 1 : a.at - b.at) * (down ? -1 : 1);
      });
    }
    this.count.textContent = this.shown.length === rows.length ? plural(rows.length, "attempt")
      : `${this.shown.length.toLocaleString("en-US")} of ${plural(rows.length, "attempt")}`;
    this.table.setAttribute("aria-rowcount", String(this.shown.length + 1));
    this.scroller.scrollTop = 0;
    this.draw(true);
  }

  private draw(again = false, all?: number): void {
    const view = this.scroller.clientHeight || 480;
    const first = all === undefined ? Math.max(0, Math.floor(this.scroller.scrollTop / ROW_PX) - MARGIN_ROWS) : 0;
    if (!again && Math.abs(first - this.first) < MARGIN_ROWS / 2) return;
    this.first = first;
    const last = all ?? Math.min(this.shown.length, first + Math.ceil(view / ROW_PX) + 2 * MARGIN_ROWS);
    const gap = (count: number): HTMLElement | null => {
      if (count <= 0) return null;
      const cell = h("td", { colspan: this.looks.length });
      cell.style.height = `${count * ROW_PX}px`;
      return h("tr", { class: "gap", "aria-hidden": "true" }, cell);
    };
    const drawn = this.shown.slice(first, last).map((row, index) => this.row(row, first + index));
    this.body.replaceChildren(...[gap(first), ...drawn, gap(this.shown.length - last)].filter((each) => each !== null));
  }

  private row(row: Row, index: number): HTMLElement {
    return h("tr", { "aria-rowindex": index + 2, class: row.ok ? null : "bad" }, this.looks.map((look) => {
      const text = look.text(row);
      if (look.key === "id") return h("td", { class: "n" }, h("button", { type: "button", class: "open", "aria-label": `Open attempt ${text}`, click: () => this.parts.open(row.at) }, text));
      const detail = look.key === "outcome" ? this.parts.columns.outcome_detail[row.at] : undefined;
      return h("td", { class: look.numeric ? "n" : null, title: detail ?? (text.length > 24 ? text : null) }, look.key === "outcome" && !row.ok ? `✕ ${text}` : text);
    }));
  }
}

export function columnTerms(define: Definitions, names: string[]): HTMLElement[] {
  return names.map((name) => term(spaced(name), define.text(name)));
}
