// What `rouse ui` tells of its runs by server-sent events: the messages' types, what they make of
// what is known, and the connection. It stands only while the page is in sight: a browser has six
// connections to a server for all of its tabs, and the server reads the database only while
// somebody looks.

export interface Recent {
  id: number | null;
  condition: string;
  outcome: string;
  prime: boolean;
  ttft_ns: number | null;
  end_ns: number | null;
}

export interface Progress {
  alive: boolean;
  done: number;
  total: number;
  condition: string;
  doing: string;
  until_wall_ns: number | null;
  updated_wall_ns: number;
  eta_ns: number;
}

export interface RunLine {
  run: number;
  name: string;
  kind: string;
  status: string;
  target: string | null;
  model: string | null;
  started: string;
  ended: string | null;
  conditions: number;
  attempts: number;
  failed: number;
  /** What came out; not of a running run. */
  result?: { fastest_ns: number | null; slowest_ns: number | null; conditions: number; without: number };
  progress?: Progress | null;
  recent?: Recent[];
}

export interface Listing {
  database: string;
  exists: boolean;
  problem: string | null; // why the list may not be up to date
  runs: Map<number, RunLine>;
}

export const NOTHING: Listing = { database: "", exists: true, problem: null, runs: new Map() };

export type Message =
  | { type: "all"; data: { database: string; exists: boolean; problem: string | null; runs: RunLine[] } }
  | { type: "changed"; data: { runs: RunLine[] } }
  | { type: "removed"; data: { runs: number[] } };

/** The listing after a message; the one before is left as it was. */
export function after(listing: Listing, { type, data }: Message): Listing {
  switch (type) {
    case "all":
      return { database: data.database, exists: data.exists, problem: data.problem, runs: new Map(data.runs.map((run) => [run.run, run])) };
    case "changed":
      return { ...listing, exists: true, runs: new Map([...listing.runs, ...data.runs.map((run): [number, RunLine] => [run.run, run])]) };
    case "removed":
      return { ...listing, runs: new Map([...listing.runs].filter(([run]) => !data.runs.includes(run))) };
  }
}

export type Connection = "connecting" | "live" | "lost";

/** Follows `url` while the page is in sight. A stream that breaks is tried again by the browser. */
export function follow(url: string, take: (message: Message) => void, told: (connection: Connection) => void): void {
  let source: EventSource | null = null;
  let again = 0;
  const open = (): void => {
    source?.close();
    source = new EventSource(url);
    for (const type of ["all", "changed", "removed"] as const) {
      source.addEventListener(type, (event) => take({ type, data: JSON.parse(event.data as string) } as Message));
    }
    source.addEventListener("open", () => told("live"));
    source.addEventListener("error", () => {
      told("lost");
      // An answer that is no stream (too many pages are open) ends it for good, as far as the browser goes.
      if (source?.readyState === EventSource.CLOSED) again = window.setTimeout(open, 3000);
    });
  };
  const look = (): void => {
    clearTimeout(again);
    if (document.hidden) {
      source?.close();
      source = null;
    } else if (source === null) {
      told("connecting");
      open();
    }
  };
  document.addEventListener("visibilitychange", look);
  addEventListener("pagehide", () => { source?.close(); source = null; });
  addEventListener("pageshow", look);
  look();
}
