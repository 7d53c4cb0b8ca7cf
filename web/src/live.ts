// A run's own page in `rouse ui`: how far the run is, above its answer, and new results as they
// come, without taking anything from under the reader's hands.

import { h } from "./dom";
import { after, follow, NOTHING, type Listing } from "./feed";
import { ProgressCard } from "./progress";

const RECENT = 3;
/** Reading and drawing a long run costs something: at most a fifth of the time goes there. */
const REST = 4;
const REST_LEAST_MS = 2000;

/** Whether the reader is in the middle of something that a redraw would take away. */
export function isBusy(main: Element | null): boolean {
  const focused = document.activeElement;
  if (main && focused && focused !== document.body && main.contains(focused)) return true;
  const selection = getSelection();
  return selection !== null && !selection.isCollapsed && main !== null && main.contains(selection.anchorNode);
}

/** What must have changed before a page is worth drawing again. */
export function stateOf(run: { status: string; attempts: number; started: string }): string {
  return `${run.status} ${run.attempts} ${run.started}`;
}

export class Live {
  readonly element = h("div", { class: "live" });
  private readonly notice = h("p", { class: "notice", role: "status", hidden: true });
  private readonly fresh = h("button", { type: "button", class: "show-new", hidden: true });
  private card: ProgressCard | null = null;
  private listing: Listing = NOTHING;
  private timer = 0;
  private rest_ms = REST_LEAST_MS;

  /** `drawn`: what the page shows already, as stateOf() has it; `refresh` fetches the data and draws
   * it; `main` is what it draws into. */
  constructor(private readonly run: number, private drawn: string, events: string, private readonly refresh: () => Promise<void>, private readonly main: () => Element | null) {
    this.element.append(this.notice, this.fresh);
    this.fresh.addEventListener("click", () => { this.fresh.blur(); void this.update(); });
    follow(events, (message) => {
      this.listing = after(this.listing, message);
      this.show();
    }, (connection) => this.say(connection === "lost" ? "Not connected: has rouse ui ended? This page tries again by itself." : this.problem()));
    setInterval(() => this.card?.tick(Date.now()), 1000);
    document.addEventListener("focusout", () => this.schedule());
  }

  private problem(): string {
    if (this.listing.problem) return `This page may be old: ${this.listing.problem}`;
    if (this.listing !== NOTHING && !this.listing.runs.has(this.run)) return "This run is not in the database any more. What you see is what was there.";
    return "";
  }

  private say(words: string): void {
    if (this.notice.textContent !== words) this.notice.textContent = words;
    this.notice.hidden = words === "";
  }

  private state(): string {
    const run = this.listing.runs.get(this.run);
    return run ? stateOf(run) : this.drawn;
  }

  private show(): void {
    this.say(this.problem());
    const run = this.listing.runs.get(this.run);
    if (run?.status === "running") {
      if (!this.card) {
        this.card = new ProgressCard(run, [], RECENT);
        this.element.append(this.card.element);
      } else {
        this.card.show(run);
      }
    } else {
      this.card?.element.remove();
      this.card = null;
    }
    this.schedule();
  }

  private schedule(): void {
    if (this.timer || this.state() === this.drawn) return;
    this.timer = window.setTimeout(() => {
      this.timer = 0;
      if (this.state() === this.drawn) return;
      if (isBusy(this.main())) {
        this.fresh.hidden = false;
        this.fresh.textContent = "There are new results: show them";
        return;
      }
      void this.update();
    }, this.rest_ms);
  }

  private async update(): Promise<void> {
    this.fresh.hidden = true;
    const wanted = this.state();
    const begin = performance.now();
    await this.refresh();
    this.drawn = wanted;
    this.rest_ms = Math.max(REST_LEAST_MS, REST * (performance.now() - begin));
    this.schedule();
  }
}
