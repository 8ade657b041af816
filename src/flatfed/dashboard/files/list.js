// The list of runs: filter, groups, and a line for each run.
"use strict";

const List = (function () {
  const { make } = Parts;
  const SYMBOLS = {
    running: "▶", finished: "✓", interrupted: "‖", stopped: "■", failed: "✗", diverged: "▲", unreadable: "?", open: "·", pruned: "−",
  };
  const SEARCHED = ["name", "method", "data", "seed", "setting", "status", "reason"];
  const MOST = 1000;
  const rows = new Map();
  let order = "";

  function symbol(status) {
    return SYMBOLS[status] || "·";
  }

  function duration(seconds) {
    if (seconds === null || seconds === undefined) {
      return "";
    }
    const whole = Math.max(1, Math.round(seconds));
    if (whole < 60) {
      return `${whole} s`;
    }
    if (whole < 3600) {
      return `${Math.round(whole / 60)} min`;
    }
    const hours = Math.floor(whole / 3600);
    return hours < 48 ? `${hours} h ${Math.round((whole % 3600) / 60)} min` : `${Math.round(hours / 24)} days`;
  }

  function statusOf(status) {
    const shown = make("span", { class: "status", "data-status": status });
    shown.append(make("span", { "aria-hidden": "true" }, `${symbol(status)} `), status);
    return shown;
  }

  function newRow(id) {
    const row = make("tr", { "data-run": id });
    const box = make("input", { type: "checkbox" });
    box.addEventListener("change", () => Board.toggle(id, box.checked));
    const cells = {
      pick: make("td", { class: "pick" }), name: make("th", { scope: "row" }), method: make("td", { class: "method" }),
      data: make("td", { class: "data" }),
      seed: make("td", { class: "number seed" }), status: make("td"), progress: make("td", { class: "progress" }),
      left: make("td", { class: "number left" }), value: make("td", { class: "number" }),
    };
    cells.pick.append(box);
    row.append(...Object.values(cells));
    return { row, box, cells, shown: null };
  }

  function fill(known, entry) {
    known.box.checked = Board.chosen.runs.includes(entry.id);
    known.box.disabled = entry.status === "unreadable";
    if (known.shown === entry) {
      return;
    }
    known.shown = entry;
    const { cells } = known;
    known.row.dataset.status = entry.status;
    known.box.setAttribute("aria-label", `pick ${entry.name}`);
    cells.name.replaceChildren(entry.name);
    if (entry.reason) {
      cells.name.append(make("span", { class: "reason" }, entry.reason));
    }
    cells.method.textContent = entry.method;
    cells.data.textContent = entry.data;
    cells.seed.textContent = entry.seed;
    cells.status.replaceChildren(statusOf(entry.status));
    cells.progress.replaceChildren();
    if (entry.of) {
      const label = `${entry.rounds} of ${entry.of} rounds`;
      cells.progress.append(make("progress", { max: entry.of, value: entry.rounds, "aria-label": label }), `${entry.rounds}/${entry.of}`);
    }
    cells.left.textContent = duration(entry.seconds_left);
    cells.value.textContent = valueText(entry);
    cells.value.title = entry.metric;
  }

  function valueText({ value, metric }) {
    if (value === null) {
      return "";
    }
    return metric.endsWith("%") ? value.toFixed(2) : Parts.text(value);
  }

  // What runs stands first.
  function inOrder(one, other) {
    const runs = (other.status === "running") - (one.status === "running");
    return runs || one.name.localeCompare(other.name, "en", { numeric: true });
  }

  function matching() {
    const words = Board.chosen.filter.toLowerCase().split(/\s+/).filter(Boolean);
    const found = Array.from(Board.entries.values()).filter((entry) => {
      const text = SEARCHED.map((name) => entry[name]).join("\n").toLowerCase();
      return words.every((word) => text.includes(word));
    });
    return found.sort(inOrder);
  }

  function grouped(found) {
    const name = Board.chosen.group;
    const groups = new Map();
    for (const entry of found) {
      const key = name ? entry[name] || "–" : "";
      groups.set(key, [...(groups.get(key) || []), entry]);
    }
    return Array.from(groups).sort(([one], [other]) => one.localeCompare(other, "en", { numeric: true }));
  }

  function groupRow(name, members) {
    const row = make("tr", { class: "group" });
    const head = make("th", { colspan: "9", scope: "rowgroup" }, `${name} (${members.length})`);
    const button = make("button", { type: "button", class: "plain" }, "Pick these");
    button.addEventListener("click", () => {
      const ids = members.filter((entry) => entry.status !== "unreadable").map((entry) => entry.id);
      Board.pick([...Board.chosen.runs, ...ids]);
    });
    head.append(button);
    row.append(head);
    return row;
  }

  function count(found, shown) {
    const every = Array.from(Board.entries.values());
    const states = new Map();
    every.forEach((entry) => states.set(entry.status, (states.get(entry.status) || 0) + 1));
    const words = Array.from(states).map(([status, number]) => `${number} ${status}`).join(", ");
    const text = [every.length ? `${every.length} runs: ${words}.` : "No run yet in this folder."];
    if (found !== every.length) {
      text.push(`${found} match the filter.`);
    }
    if (shown < found) {
      text.push(`The first ${shown} are shown; narrow the filter.`);
    }
    document.getElementById("count").textContent = text.join(" ");
  }

  function draw() {
    if (!Board.state.isComplete) {
      return;
    }
    const found = matching();
    const shown = found.slice(0, MOST);
    const groups = grouped(shown);
    const now = JSON.stringify([Board.chosen.group, groups.map(([name, own]) => [name, own.map((entry) => entry.id)])]);
    for (const entry of shown) {
      if (!rows.has(entry.id)) {
        rows.set(entry.id, newRow(entry.id));
      }
      fill(rows.get(entry.id), entry);
    }
    if (now !== order) {
      order = now;
      lay(groups);
    }
    count(found.length, shown.length);
  }

  function lay(groups) {
    const table = document.getElementById("runs");
    Array.from(table.tBodies).forEach((body) => body.remove());
    for (const [name, members] of groups) {
      const body = make("tbody");
      if (Board.chosen.group) {
        body.append(groupRow(name, members));
      }
      body.append(...members.map((entry) => rows.get(entry.id).row));
      table.append(body);
    }
  }

  function begin() {
    const filter = document.getElementById("filter");
    const group = document.getElementById("group");
    filter.value = Board.chosen.filter;
    group.value = Board.chosen.group;
    filter.addEventListener("input", () => Board.choose("filter", filter.value));
    group.addEventListener("change", () => Board.choose("group", group.value));
    document.getElementById("none").addEventListener("click", () => Board.pick([]));
    Board.onChange(draw);
  }

  return { begin, duration, statusOf, symbol };
})();
