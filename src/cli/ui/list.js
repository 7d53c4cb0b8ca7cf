// The list of runs: drawn from /api/runs, kept up to date by the events of /events. Text of others
// is only ever set as text.
"use strict";
(() => {
  const body = document.getElementById("runs");
  const status = document.getElementById("status");
  const filter = document.getElementById("filter");
  const empty = document.getElementById("empty");
  const runs = new Map();
  const rows = new Map();

  const cell = (row, text, name) => {
    const td = document.createElement("td");
    td.textContent = text;
    if (name) td.className = name;
    row.append(td);
    return td;
  };

  const left = (ns) => {
    const seconds = Math.round(ns / 1e9);
    if (seconds < 90) return seconds + " s left";
    return seconds < 5400 ? Math.round(seconds / 60) + " min left"
      : Math.round(seconds / 3600) + " h left";
  };

  const draw = (run) => {
    const row = document.createElement("tr");
    row.dataset.run = String(run.run);
    const link = document.createElement("a");
    link.href = "/runs/" + run.run;
    link.textContent = String(run.run);
    const head = document.createElement("th");
    head.scope = "row";
    head.append(link);
    row.append(head);
    cell(row, run.started.slice(0, 16).replace("T", " "));
    const state = cell(row, run.status, run.status);
    const now = run.progress;
    if (now && now.total > 0) {
      const bar = document.createElement("progress");
      bar.max = now.total;
      bar.value = now.done;
      bar.setAttribute("aria-label", "attempts done");
      const words = document.createElement("small");
      words.textContent = now.done + " of " + now.total + ", " +
        [now.condition, now.doing].filter(Boolean).join(": ") + ", " + left(now.eta_ns);
      state.append(document.createElement("br"), bar, document.createElement("br"), words);
    }
    cell(row, run.name, "name");
    cell(row, [run.target, run.model].filter(Boolean).join(", "), "target");
    cell(row, String(run.conditions), "number");
    cell(row, String(run.attempts), "number");
    cell(row, String(run.failed), "number");
    return row;
  };

  const shown = (run) => {
    const wanted = filter.value.trim().toLowerCase();
    return [run.name, run.target, run.model, run.status, run.kind, String(run.run)]
      .some((text) => text && text.toLowerCase().includes(wanted));
  };

  const tell = (words) => {
    let visible = 0;
    for (const [number, run] of runs) {
      const show = shown(run);
      rows.get(number).hidden = !show;
      if (show) visible += 1;
    }
    empty.hidden = visible > 0;
    empty.textContent = runs.size === 0
      ? "No runs yet. rouse measure makes one; it will appear here by itself."
      : "No run matches.";
    const running = [...runs.values()].filter((run) => run.status === "running").length;
    status.textContent = (words ? words + ". " : "") + visible + " of " + runs.size +
      " runs shown" + (running > 0 ? ", " + running + " running" : "");
  };

  const take = (list, mark) => {
    for (const run of list) {
      const row = draw(run);
      if (mark) {
        row.className = "changed";
        setTimeout(() => { row.className = ""; }, 1500);
      }
      const old = rows.get(run.run);
      runs.set(run.run, run);
      rows.set(run.run, row);
      if (old) {
        old.replaceWith(row);
      } else {
        // Newest first; numbers only grow.
        let next = body.firstElementChild;
        while (next && Number(next.dataset.run) > run.run) next = next.nextElementSibling;
        body.insertBefore(row, next);
      }
    }
  };

  filter.addEventListener("input", () => tell(""));

  const events = new EventSource("/events");
  events.addEventListener("all", (event) => {
    const message = JSON.parse(event.data);
    document.getElementById("about").textContent = message.database;
    runs.clear();
    rows.clear();
    body.replaceChildren();
    take(message.runs.sort((a, b) => b.run - a.run), false);
    tell("");
  });
  events.addEventListener("changed", (event) => {
    take(JSON.parse(event.data).runs, true);
    tell("");
  });
  events.addEventListener("error", () => tell("not connected: is rouse ui still running?"));
})();
