import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { REST_LEAST_MS, Refresher } from "../src/refresher";

/** A page whose drawings end when the test says so. */
class Fake {
  state: string | null = "a";
  busy = false;
  offered = false;
  begun = 0;
  private end: (good: boolean) => void = () => {};
  readonly refresher = new Refresher("a", {
    state: () => this.state,
    busy: () => this.busy,
    offer: (shown) => { this.offered = shown; },
    refresh: () => { this.begun++; return new Promise((resolve) => { this.end = resolve; }); },
  });

  async tell(state: string | null): Promise<void> {
    this.state = state;
    this.refresher.schedule();
    await vi.advanceTimersByTimeAsync(REST_LEAST_MS);
  }

  async finish(good = true): Promise<void> {
    this.end(good);
    await vi.advanceTimersByTimeAsync(0);
  }
}

describe("a page of a running run", () => {
  beforeEach(() => { vi.useFakeTimers(); });
  afterEach(() => { vi.useRealTimers(); });

  it("is drawn again when something changed, and not without", async () => {
    const page = new Fake();
    await page.tell("a");
    expect(page.begun).toBe(0);
    await page.tell("b");
    expect(page.begun).toBe(1);
    await page.finish();
    await page.tell("b");
    expect(page.begun).toBe(1);
  });

  it("is drawn once at a time, whatever comes meanwhile", async () => {
    const page = new Fake();
    await page.tell("b");
    await page.tell("c"); // the drawing of b takes long
    void page.refresher.update(); // and the reader presses the button
    await vi.advanceTimersByTimeAsync(60_000);
    expect(page.begun).toBe(1);
    await page.finish();
    await vi.advanceTimersByTimeAsync(600_000); // what came meanwhile follows
    expect(page.begun).toBe(2);
    await page.finish();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(page.begun).toBe(2);
  });

  it("is drawn once when the button is pressed before its time", async () => {
    const page = new Fake();
    page.state = "b";
    page.refresher.schedule();
    void page.refresher.update();
    await page.finish();
    await vi.advanceTimersByTimeAsync(600_000);
    expect(page.begun).toBe(1);
  });

  it("is tried again when it failed, until it is there", async () => {
    const page = new Fake();
    await page.tell("complete");
    await page.finish(false);
    await vi.advanceTimersByTimeAsync(600_000); // nothing more is told of a complete run
    expect(page.begun).toBe(2);
    await page.finish(true);
    await vi.advanceTimersByTimeAsync(600_000);
    expect(page.begun).toBe(2);
  });

  it("stays as it is when the run is not there any more", async () => {
    const page = new Fake();
    await page.tell("b");
    await page.finish();
    await page.tell(null);
    expect(page.begun).toBe(1);
  });

  it("waits for a reader who is busy, and offers it", async () => {
    const page = new Fake();
    page.busy = true;
    await page.tell("b");
    expect([page.begun, page.offered]).toEqual([0, true]);
    page.busy = false;
    page.refresher.schedule();
    await vi.advanceTimersByTimeAsync(REST_LEAST_MS);
    expect([page.begun, page.offered]).toEqual([1, false]);
  });
});
