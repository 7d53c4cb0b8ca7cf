// A run's own page in `rouse ui`: how far the run is, above its answer, and new results as they
// come, without taking anything from under the reader's hands.

import { h } from "./dom";
import { after, follow, NOTHING, type Listing } from "./feed";
import { ProgressCard } from "./progress";
import { Refresher } from "./refresher";

const RECENT = 3;

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
  private readonly refresher: Refresher;

  /** `drawn`: what the page shows already, as stateOf() has it; `refresh` fetches the data and draws
   * it, and says whether that went well; `main` is what it draws into. */
  constructor(private readonly run: number, drawn: string, events: string, refresh: () => Promise<boolean>, main: () => Element | null) {
    this.element.append(this.notice, this.fresh);
    this.fresh.textContent = "There are new results: show them";
    this.refresher = new Refresher(drawn, { state: () => this.state(), refresh, busy: () => isBusy(main()), offer: (shown) => { this.fresh.hidden = !shown; } });
    this.fresh.addEventListener("click", () => { this.fresh.blur(); void this.refresher.update(); });
    follow(events, (message) => {
      this.listing = after(this.listing, message);
      this.show();
    }, (connection) => this.say(connection === "lost" ? "Not connected: has rouse ui ended? This page tries again by itself." : this.problem()));
    setInterval(() => this.card?.tick(Date.now()), 1000);
    document.addEventListener("focusout", () => this.refresher.schedule());
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

  private state(): string | null {
    const run = this.listing.runs.get(this.run);
    return run ? stateOf(run) : null;
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
    this.refresher.schedule();
  }
}
