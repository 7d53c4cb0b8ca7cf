// The list page of `rouse ui`: all runs, filtered and sorted, and what the running ones do. Drawn
// from /events alone.

import "./base.css";
import "./running.css";
import "./runs.css";
import { installDefinitions } from "./define";
import { h } from "./dom";
import { after, follow, NOTHING, type Connection, type Listing, type RunLine } from "./feed";
import { COLUMNS, countWords, hashOf, shownRuns, wishOf, type Column, type Wish } from "./listing";
import { ProgressCard } from "./progress";
import { themeButton } from "./theme";

/** As many rows as are drawn at once; the rest comes at the press of a button. */
const ROWS_AT_ONCE = 500;
const RECENT = 5;

const page = document.getElementById("page")!;
const database = h("p", { class: "kicker" });
const notice = h("p", { class: "notice", role: "alert", hidden: true });
const running = h("div", { class: "cards" });
const filter = h("input", { type: "search", autocomplete: "off", spellcheck: "false", id: "filter", "aria-describedby": "keys" });
const count = h("p", { class: "count", role: "status" });
const heads = new Map<Column["key"], HTMLElement>();
const body = h("tbody", { role: "rowgroup" });
const more = h("button", { type: "button", hidden: true });
const empty = h("div", { class: "empty", hidden: true });
const scroller = h("div", { class: "list" });

let listing: Listing = NOTHING;
let connection: Connection = "connecting";
let known = false; // whether anything was told yet
let wish: Wish = wishOf(location.hash);
let most = ROWS_AT_ONCE;
let shown: RunLine[] = [];
const rows = new Map<number, { text: string; row: HTMLElement }>();
const cards = new Map<number, ProgressCard>();

function rowOf(run: RunLine): HTMLElement {
  return h("tr", { role: "row", "data-run": run.run, "data-status": run.status }, COLUMNS.map((column) => {
    const text = column.text(run);
    const attributes = { role: "cell", class: `${column.key}${column.numeric ? " n" : ""}${column.key === "failed" && run.failed > 0 ? " bad" : ""}` };
    if (column.key === "run") return h("td", attributes, h("a", { href: `/runs/${run.run}`, "aria-label": `Run ${run.run}, ${run.name}` }, text));
    if (column.key === "started") return h("td", attributes, h("time", { datetime: run.started, title: `${run.started} (UTC)` }, text));
    return h("td", attributes, text);
  }));
}

function drawRows(): void {
  const wanted = shown.slice(0, most).map((run) => {
    const text = JSON.stringify(COLUMNS.map((column) => column.text(run)));
    const old = rows.get(run.run);
    if (old?.text === text) return old.row;
    const row = rowOf(run);
    // The reader's place in the list stays where it is.
    const focused = old?.row.contains(document.activeElement);
    if (known) row.classList.add("fresh");
    rows.set(run.run, { text, row });
    if (focused) queueMicrotask(() => row.querySelector("a")?.focus());
    return row;
  });
  for (const run of rows.keys()) if (!listing.runs.has(run)) rows.delete(run);
  const now = [...body.children];
  if (now.length !== wanted.length || wanted.some((row, place) => row !== now[place])) {
    const focused = document.activeElement instanceof HTMLElement && body.contains(document.activeElement) ? document.activeElement : null;
    body.replaceChildren(...wanted);
    if (focused?.isConnected) focused.focus({ preventScroll: true });
  }
  more.hidden = shown.length <= most;
  more.textContent = `Show all ${shown.length.toLocaleString("en-US")}`;
}

function drawCards(): void {
  const now = [...listing.runs.values()].filter((run) => run.status === "running").sort((a, b) => b.run - a.run);
  for (const [run, card] of cards) {
    if (now.some((each) => each.run === run)) continue;
    card.element.remove();
    cards.delete(run);
  }
  for (const run of now) {
    const card = cards.get(run.run);
    if (card) {
      card.show(run);
      continue;
    }
    const made = new ProgressCard(run, [h("h2", {}, h("a", { href: `/runs/${run.run}` }, `Run ${run.run}`), ` · ${[run.name, run.target, run.model].filter(Boolean).join(" · ")}`)], RECENT);
    cards.set(run.run, made);
    running.append(made.element);
  }
}

function emptyWords(): (Node | string)[] {
  if (!known) return [connection === "lost" ? "" : "Reading the runs …"];
  if (listing.runs.size > 0) return ["No run matches. ", h("button", { type: "button", click: () => { filter.value = ""; refilter(); filter.focus(); } }, "Show all")];
  return [h("strong", {}, listing.exists ? "No runs yet." : "There is no database yet."), " Measure one, and it appears here by itself:",
    h("pre", { tabindex: 0 }, "rouse measure"), "That takes about half a minute: a small model on the built-in server, cold and warm."];
}

function noticeWords(): string {
  if (connection === "lost") return "Not connected: has rouse ui ended? This page tries again by itself" + (known ? "; what it shows may be old." : ".");
  if (listing.problem) return `The list may be old: ${listing.problem}`;
  return "";
}

function draw(): void {
  shown = shownRuns(listing.runs.values(), wish);
  database.textContent = listing.database;
  const words = noticeWords();
  if (notice.textContent !== words) notice.textContent = words;
  notice.hidden = words === "";
  drawCards();
  drawRows();
  for (const [key, head] of heads) {
    if (key === wish.sort) head.setAttribute("aria-sort", wish.down ? "descending" : "ascending");
    else head.removeAttribute("aria-sort");
  }
  scroller.hidden = shown.length === 0;
  empty.hidden = shown.length > 0;
  if (!empty.hidden) empty.replaceChildren(...emptyWords());
  const told = known ? countWords(shown.length, listing.runs.size, cards.size) : "";
  if (count.textContent !== told) count.textContent = told;
  document.title = `${cards.size > 0 ? `${cards.size} running · ` : ""}Runs · rouse`;
  document.documentElement.dataset["ready"] = known || connection === "lost" ? "yes" : "no";
}

function keep(): void {
  history.replaceState(null, "", hashOf(wish) || location.pathname);
}

function refilter(): void {
  wish = { ...wish, text: filter.value };
  most = ROWS_AT_ONCE;
  keep();
  draw();
}

function sortBy(column: Column): void {
  // First what one looks for: the largest number, the newest, else from a to z.
  const first = column.numeric || column.key === "started";
  wish = { ...wish, sort: column.key, down: wish.sort === column.key ? !wish.down : first };
  keep();
  draw();
}

/** Moves by rows; from the first one up is the filter. */
function move(event: KeyboardEvent): void {
  const links = [...body.querySelectorAll("a")];
  const at = links.indexOf(document.activeElement as HTMLAnchorElement);
  const inFilter = document.activeElement === filter;
  if (at < 0 && !inFilter) return;
  const target = event.key === "ArrowDown" ? links[at + 1] : event.key === "ArrowUp" ? (at > 0 ? links[at - 1] : at === 0 ? filter : undefined)
    : event.key === "Escape" ? filter : !inFilter && event.key === "Home" ? links[0] : !inFilter && event.key === "End" ? links.at(-1) : undefined;
  if (event.key === "Escape" && inFilter) {
    filter.value = "";
    refilter();
  } else if (event.key === "Enter" && inFilter && shown[0]) {
    location.href = `/runs/${shown[0].run}`;
  } else if (target) {
    target.focus();
  } else {
    return;
  }
  event.preventDefault();
}

function start(): void {
  filter.value = wish.text;
  filter.addEventListener("input", refilter);
  document.addEventListener("keydown", move);
  more.addEventListener("click", () => { most = Infinity; draw(); });
  const head = h("tr", { role: "row" }, COLUMNS.map((column) => {
    const cell = h("th", { scope: "col", role: "columnheader", class: `${column.key}${column.numeric ? " n" : ""}` },
      h("button", { type: "button", class: "sort", "data-def": `${column.definition} Press to sort.`, click: () => sortBy(column) }, column.title));
    heads.set(column.key, cell);
    return cell;
  }));
  scroller.append(h("table", { role: "table", "aria-label": "Runs" }, h("thead", { role: "rowgroup" }, head), body));
  page.replaceChildren(h("main", {}, h("header", {}, h("div", { class: "top" }, database, themeButton()), h("h1", {}, "Stored runs")),
    notice, running,
    h("div", { class: "finder" }, h("label", { for: "filter" }, "Find runs by name, server, model, status or #number"), filter,
      h("p", { class: "keys", id: "keys" }, h("kbd", {}, "↓"), " ", h("kbd", {}, "↑"), " move by rows, ", h("kbd", {}, "Enter"), " opens, ", h("kbd", {}, "Esc"), " goes back here and clears")),
    count, scroller, more, empty,
    h("footer", {}, h("p", { class: "remark" }, "Reads the database and changes nothing. Close this page for runs on which milliseconds matter."))));
  installDefinitions(page);
  // A keyboard that lies over half of a phone's screen is not what one came for.
  if (matchMedia("(pointer: fine)").matches) filter.focus({ preventScroll: true });
  draw();
  follow("/events", (message) => {
    listing = after(listing, message);
    draw();
    if (known) return;
    known = true; // from now on a new row is news
    draw();
  }, (now) => { connection = now; draw(); });
  setInterval(() => { for (const card of cards.values()) card.tick(Date.now()); }, 1000);
}

start();
