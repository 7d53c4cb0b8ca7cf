// When a page of a running run is drawn again: one drawing at a time, at rest, and not while the
// reader is in the middle of something. No document is needed here.

/** Reading and drawing a long run costs something: at most a fifth of the time goes there. */
const REST = 4;
export const REST_LEAST_MS = 2000;

export interface RefresherParts {
  /** What the page should show now; null where that is not known. */
  state: () => string | null;
  /** Fetches and draws it. False when that failed: it is tried again. */
  refresh: () => Promise<boolean>;
  /** Whether the reader is not to be disturbed, and what says so instead. */
  busy: () => boolean;
  offer: (shown: boolean) => void;
}

export class Refresher {
  private timer: ReturnType<typeof setTimeout> | undefined;
  private updating = false;
  private rest_ms = REST_LEAST_MS;

  /** `drawn`: the state that the page shows already. */
  constructor(private drawn: string, private readonly parts: RefresherParts) {}

  private isOld(): boolean {
    const state = this.parts.state();
    return state !== null && state !== this.drawn;
  }

  /** To be called whenever the state or the reader may have changed. */
  schedule(): void {
    if (this.timer !== undefined || this.updating || !this.isOld()) return;
    this.timer = setTimeout(() => {
      this.timer = undefined;
      if (!this.isOld()) return;
      if (this.parts.busy()) this.parts.offer(true);
      else void this.update();
    }, this.rest_ms);
  }

  /** Now, whatever the reader does: at the reader's wish. */
  async update(): Promise<void> {
    if (this.updating) return; // the one under way is followed by another where that is needed
    clearTimeout(this.timer);
    this.timer = undefined;
    this.updating = true;
    this.parts.offer(false);
    const wanted = this.parts.state() ?? this.drawn;
    const begin = performance.now();
    try {
      if (await this.parts.refresh()) this.drawn = wanted;
    } finally {
      this.updating = false;
      this.rest_ms = Math.max(REST_LEAST_MS, REST * (performance.now() - begin));
      this.schedule();
    }
  }
}
