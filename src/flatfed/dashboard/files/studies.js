// Studies as grids that fill up, and comparisons, with their reports and commands.
"use strict";

const Studies = (function () {
  const { command, make } = Parts;
  const STATES = ["finished", "running", "interrupted", "failed", "diverged", "stopped", "open"];
  const drawn = new Map();

  function cellOf(cell) {
    const isRun = Board.entries.has(cell.run);
    const words = `${cell.method}, ${cell.setting || "all"}, seed ${cell.seed}: ${cell.state}${cell.reason ? `, ${cell.reason}` : ""}`;
    const shown = make(isRun ? "button" : "span", {
      class: "cell", "data-status": cell.state, title: words, "aria-label": isRun ? `${words}; pick it` : words,
    }, List.symbol(cell.state));
    if (isRun) {
      shown.type = "button";
      shown.addEventListener("click", () => Board.toggle(cell.run, !Board.chosen.runs.includes(cell.run)));
    } else {
      shown.setAttribute("role", "img");
    }
    return shown;
  }

  function legend() {
    const line = make("p", { class: "note legend", "aria-hidden": "true" });
    for (const state of STATES) {
      const item = make("span");
      item.append(make("span", { class: "cell", "data-status": state }, List.symbol(state)), state);
      line.append(item);
    }
    return line;
  }

  function gridOf(study, cells) {
    const settings = study.settings;
    const heads = [["method", false], ...settings.map((name) => [name || "all", false])];
    const rows = study.methods.map((method) => {
      const row = make("tr");
      row.append(make("th", { scope: "row" }, method));
      for (const setting of settings) {
        const box = make("td");
        const own = cells.filter((cell) => cell.method === method && cell.setting === setting);
        const missing = study.seeds.filter((seed) => !own.some((cell) => cell.seed === seed));
        box.append(...own.map(cellOf), ...missing.map((seed) => cellOf({ method, setting, seed, state: "open", reason: "", run: "" })));
        row.append(box);
      }
      return row;
    });
    const { scroll, table } = Picked.sortedTable(`Cells of ${study.title}`, heads, rows);
    table.classList.add("grid");
    return scroll;
  }

  function failuresOf(cells) {
    const bad = cells.filter((cell) => ["failed", "diverged", "stopped"].includes(cell.state));
    if (!bad.length) {
      return [];
    }
    const rows = bad.map((cell) => {
      const row = make("tr");
      row.append(make("th", { scope: "row" }, cell.method));
      [cell.setting || "all", cell.seed, cell.state, cell.reason || "–"].forEach((words) => row.append(make("td", {}, words)));
      return row;
    });
    const heads = ["method", "setting", "seed", "state", "reason"].map((name) => [name, false]);
    return [Picked.sortedTable("Cells without a result", heads, rows).scroll];
  }

  function studyParts(study) {
    const head = make("h3", {}, study.title || study.name);
    if (study.problem) {
      return [head, make("p", { class: "warning" }, study.problem)];
    }
    const every = Array.from(study.cells.values());
    const cells = every.filter((cell) => !cell.chooses);
    const choosing = every.filter((cell) => cell.chooses);
    const ended = every.filter((cell) => !["open", "running", "interrupted"].includes(cell.state)).length;
    const parts = [head, make("p", { class: "note" }, `${study.name}: ${ended} of ${study.count} cells have ended.`)];
    if (choosing.length) {
      const done = choosing.filter((cell) => cell.state === "finished").length;
      parts.push(make("p", { class: "note" }, `Cells that choose parameters: ${done} of ${choosing.length} are finished.`));
    }
    parts.push(gridOf(study, cells), legend(), ...failuresOf(every), Details.reportLink(study.id, "Open the report of this study"));
    if (study.command) {
      parts.push(make("p", {}, "Train what is missing, or go on:"), command(study.command));
    }
    return parts;
  }

  function comparisonParts(group) {
    const runs = group.runs.map((id) => Board.entries.get(id)).filter(Boolean);
    const done = runs.filter((entry) => entry.status === "finished").length;
    const parts = [
      make("h3", {}, group.name), make("p", { class: "note" }, `A comparison: ${done} of ${runs.length} runs are finished.`),
      Details.reportLink(group.id, "Open the report of this comparison"),
    ];
    if (group.command) {
      parts.push(command(group.command));
    }
    return parts;
  }

  // Each is written again only where it changed: whoever is in it stays there.
  function write(place, id, words, parts) {
    const known = drawn.get(id) || { box: make("div", { "data-group": id }), words: "" };
    if (known.words !== words) {
      known.words = words;
      known.box.replaceChildren(...parts());
      drawn.set(id, known);
    }
    if (known.box.parentElement !== place) {
      place.append(known.box);
    }
  }

  function draw() {
    const { groups } = Board.state;
    document.getElementById("studies").hidden = !groups.length;
    for (const [id, { box }] of drawn) {
      if (!groups.some((group) => group.id === id)) {
        box.remove();
        drawn.delete(id);
      }
    }
    for (const group of groups) {
      const study = Board.studies.get(group.id);
      if (group.kind === "comparison") {
        const states = group.runs.map((id) => (Board.entries.get(id) || {}).status);
        write(document.getElementById("comparisons"), group.id, JSON.stringify([group, states]), () => comparisonParts(group));
      } else if (study) {
        const known = Array.from(study.cells.values()).map((cell) => Board.entries.has(cell.run));
        const words = JSON.stringify([study, Array.from(study.cells.values()), known]);
        write(document.getElementById("grids"), group.id, words, () => studyParts(study));
      }
    }
  }

  return { draw };
})();
