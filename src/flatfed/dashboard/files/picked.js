// The picked runs: curves that grow, a table, two side by side, and each by itself.
"use strict";

const Picked = (function () {
  const { all, choice, make, makeSortable, radios, tick } = Parts;
  const DASHES = ["solid", "dash", "dot", "dashdot", "longdash", "longdashdot"];
  const scale = { metric: "", log: false };
  let controls = "";
  let compared = "";
  let asked = 0;

  function runs() {
    return Board.chosen.runs.filter((id) => Board.entries.has(id));
  }

  function drawn() {
    return runs().filter((id) => Board.curves.has(id));
  }

  // Runs of one method have one colour; within it lines differ.
  function methodsOf(ids) {
    const places = new Map();
    const counts = new Map();
    return ids.map((id) => {
      const entry = Board.entries.get(id);
      const key = `${Board.methodOf(entry)}\n${entry.data}`;
      if (!places.has(key)) {
        places.set(key, places.size);
      }
      const count = counts.get(key) || 0;
      counts.set(key, count + 1);
      const { x, series } = Board.curves.get(id);
      return {
        method: labelOf(entry, ids), reference: false, x, series: drawnSeries(x.round, series), place: places.get(key), dash: DASHES[count % DASHES.length],
        diverged: entry.status === "diverged" ? [entry.seed] : [],
      };
    });
  }

  // As in the report: a line through even rounds, and those that were evaluated more often behind it.
  function drawnSeries(rounds, series) {
    const name = Board.chosen.metric;
    const curve = series[name];
    return curve && curve.every ? { ...series, [name]: evenly(rounds, curve) } : series;
  }

  function evenly(rounds, curve) {
    const round = (place) => rounds[curve.at[place]];
    const places = curve.at.map((_, place) => place);
    const even = places.filter((place) => round(place) % curve.every === 0 || place === places.length - 1);
    const stretches = [];
    for (const place of places) {
      if (place && round(place) - round(place - 1) < curve.every) {
        stretches[stretches.length - 1].push(place);
      } else {
        stretches.push([place]);
      }
    }
    const at = (some) => ({ at: some.map((place) => curve.at[place]), mean: some.map((place) => curve.mean[place]) });
    return { ...at(even), dense: stretches.filter((stretch) => stretch.length > 2).map(at) };
  }

  function labelOf(entry, ids) {
    const method = Board.methodOf(entry);
    const short = `${method}, seed ${entry.seed}`;
    const isAlone = ids.filter((id) => {
      const other = Board.entries.get(id);
      return Board.methodOf(other) === method && other.seed === entry.seed;
    }).length === 1;
    return isAlone ? short : `${short} (${entry.name})`;
  }

  function metricsOf(ids) {
    const metrics = new Map();
    for (const id of ids) {
      Board.curves.get(id).metrics.forEach((one) => metrics.set(one.name, metrics.get(one.name) || one));
    }
    return Array.from(metrics.values());
  }

  // Curves.

  function drawCurves() {
    const figure = document.getElementById("curves");
    const ids = drawn();
    const metrics = metricsOf(ids);
    if (!metrics.length) {
      return;
    }
    if (!metrics.some((one) => one.name === Board.chosen.metric)) {
      Board.chosen.metric = metrics[0].name;
    }
    if (scale.metric !== Board.chosen.metric) {
      scale.metric = Board.chosen.metric;
      scale.log = metrics.find((one) => one.name === scale.metric).log;
    }
    writeControls(figure, metrics);
    const curves = { metrics, methods: methodsOf(ids) };
    const state = { metric: Board.chosen.metric, axis: Board.chosen.axis, log: scale.log };
    Curves.drawCurves(figure.querySelector(".plot"), curves, state);
    Curves.writeNumbers(figure, curves, state);
  }

  // Written again only where they would be others: whoever is in a control stays there.
  function writeControls(figure, metrics) {
    const now = JSON.stringify([metrics, Board.chosen.metric]);
    if (now === controls) {
      return;
    }
    controls = now;
    const box = figure.querySelector(".controls");
    const active = box.contains(document.activeElement) ? document.activeElement.tagName : "";
    box.replaceChildren(
      choice("Number", metrics.map((one) => [one.name, one.label]), Board.chosen.metric, (value) => Board.choose("metric", value)),
      radios("over", Object.entries(Curves.AXES), Board.chosen.axis, (value) => Board.choose("axis", value)),
      tick("log scale", scale.log, (value) => {
        scale.log = value;
        Board.changed("chosen");
      }).named,
    );
    if (active === "SELECT") {
      box.querySelector("select").focus();
    }
  }

  // The table.

  function shownNumber(name, value) {
    if (value === null) {
      return "–";
    }
    if (name === "bytes") {
      const place = Math.min(4, Math.max(0, Math.floor(Math.log10(Math.max(value, 1)) / 3)));
      return `${Number((value / 1000 ** place).toPrecision(4))} ${["B", "kB", "MB", "GB", "TB"][place]}`;
    }
    return Number.isInteger(value) ? value.toLocaleString("en") : Parts.text(value);
  }

  function headsOf(ids) {
    const names = new Set();
    ids.forEach((id) => Board.curves.get(id).numbers.forEach((one) => names.add(one.name)));
    return Array.from(names);
  }

  function sortedTable(caption, heads, rows) {
    const scroll = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": caption });
    const table = make("table");
    table.append(make("caption", { class: "unseen" }, caption));
    const head = table.createTHead().insertRow();
    heads.forEach(([name, isNumber]) => head.append(make("th", { scope: "col", class: isNumber ? "number" : "" }, name)));
    const body = table.createTBody();
    rows.forEach((row) => body.append(row));
    scroll.append(table);
    return { scroll, table };
  }

  function tableRow(id, names) {
    const entry = Board.entries.get(id);
    const row = make("tr", { "data-run": id });
    row.append(make("th", { scope: "row", "data-sort": entry.name }, entry.name));
    for (const name of ["method", "seed"]) {
      row.append(make("td", { "data-sort": entry[name] }, entry[name]));
    }
    const status = make("td", { "data-sort": entry.status });
    status.append(List.statusOf(entry.status));
    row.append(status);
    const numbers = new Map(Board.curves.get(id).numbers.map((one) => [one.name, one.value]));
    for (const name of names) {
      const value = numbers.has(name) ? numbers.get(name) : null;
      const cell = make("td", { class: "number" }, shownNumber(name, value));
      if (value !== null) {
        cell.dataset.sort = String(value);
      }
      row.append(cell);
    }
    return row;
  }

  function drawTable() {
    const place = document.getElementById("table");
    const ids = drawn();
    const names = headsOf(ids);
    const old = place.querySelector("table");
    const sorted = old ? old.querySelector("[aria-sort]") : null;
    const before = sorted ? [Array.from(sorted.parentElement.children).indexOf(sorted), sorted.getAttribute("aria-sort")] : null;
    const left = old ? old.parentElement.scrollLeft : 0;
    const focused = place.contains(document.activeElement) ? all("button", place).indexOf(document.activeElement) : -1;
    const heads = [["run", false], ["method", false], ["seed", false], ["status", false], ...names.map((name) => [name, true])];
    const { scroll, table } = sortedTable("The picked runs", heads, ids.map((id) => tableRow(id, names)));
    makeSortable(table);
    place.replaceChildren(scroll);
    scroll.scrollLeft = left;
    // As it was: which column it is sorted by, and where the keyboard is.
    if (before && all("thead button", table)[before[0]]) {
      const head = all("thead th", table)[before[0]];
      head.querySelector("button").click();
      if (head.getAttribute("aria-sort") !== before[1]) {
        head.querySelector("button").click();
      }
    }
    if (focused >= 0 && all("button", place)[focused]) {
      all("button", place)[focused].focus();
    }
  }

  // Two side by side.

  function drawCompare() {
    const place = document.getElementById("compare");
    const ids = drawn();
    if (ids.length < 2) {
      place.replaceChildren();
      compared = "";
      return;
    }
    const { chosen } = Board;
    chosen.a = ids.includes(chosen.a) ? chosen.a : ids[0];
    chosen.b = ids.includes(chosen.b) && chosen.b !== chosen.a ? chosen.b : ids.find((id) => id !== chosen.a);
    const now = JSON.stringify([ids, chosen.a, chosen.b]);
    if (now !== compared) {
      compared = now;
      layCompare(place, ids);
    }
    writeCompared(place.querySelector(".numbers"));
  }

  function layCompare(place, ids) {
    const options = ids.map((id) => [id, Board.entries.get(id).name]);
    const box = make("div", { class: "controls" });
    for (const name of ["a", "b"]) {
      box.append(choice(name === "a" ? "Run" : "beside", options, Board.chosen[name], (value) => Board.choose(name, value)));
    }
    place.replaceChildren(make("h3", {}, "Two side by side"), box, make("div", { class: "numbers" }), make("div", { class: "settings" }));
    askSettings(place.querySelector(".settings"));
  }

  function writeCompared(place) {
    const two = [Board.chosen.a, Board.chosen.b];
    const names = headsOf(two);
    const rows = names.map((name) => {
      const row = make("tr");
      row.append(make("th", { scope: "row" }, name));
      for (const id of two) {
        const found = Board.curves.get(id).numbers.find((one) => one.name === name);
        row.append(make("td", { class: "number" }, shownNumber(name, found ? found.value : null)));
      }
      return row;
    });
    const heads = [["number", false], ...two.map((id) => [Board.entries.get(id).name, true])];
    place.replaceChildren(sortedTable("Numbers side by side", heads, rows).scroll);
  }

  function askSettings(place) {
    const turn = (asked += 1);
    const { a, b } = Board.chosen;
    fetch(`/compare?${new URLSearchParams({ a, b })}`).then((answer) => (answer.ok ? answer.json() : null)).then((data) => {
      if (turn === asked && data) {
        writeSettings(place, data, [a, b]);
      }
    }, () => {});
  }

  function writeSettings(place, data, two) {
    const common = `${data.common} settings are the same in both.`;
    if (!data.rows.length) {
      place.replaceChildren(make("p", { class: "note" }, `No setting differs. ${common}`));
      return;
    }
    const rows = data.rows.map((cells) => {
      const row = make("tr");
      row.append(make("th", { scope: "row" }, cells[0]), make("td", {}, cells[1]), make("td", {}, cells[2]));
      return row;
    });
    const names = two.map((id) => (Board.entries.has(id) ? Board.entries.get(id).name : ""));
    const heads = [["setting that differs", false], ...names.map((name) => [name, false])];
    place.replaceChildren(sortedTable("Settings that differ", heads, rows).scroll, make("p", { class: "note" }, common));
  }

  return { drawCompare, drawCurves, drawTable, drawn, runs, sortedTable };
})();
