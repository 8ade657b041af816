// What the page knows, what was chosen on it, and the stream that brings what changes.
"use strict";

const Board = (function () {
  const entries = new Map();
  const curves = new Map();
  const studies = new Map();
  const chosen = { runs: [], filter: "", group: "", metric: "", axis: "round", log: null, a: "", b: "" };
  const state = { groups: [], boot: "", folder: "", last: "", isComplete: false };
  const hearers = [];
  let source = null;
  let again = 0;
  let isWaiting = false;
  const news = new Set();

  // Whoever hears is called once per frame, with the names of what changed.
  function onChange(hearer) {
    hearers.push(hearer);
  }

  function changed(...names) {
    names.forEach((name) => news.add(name));
    if (!isWaiting) {
      isWaiting = true;
      requestAnimationFrame(() => {
        isWaiting = false;
        const now = new Set(news);
        news.clear();
        hearers.forEach((hearer) => hearer(now));
      });
    }
  }

  // What was chosen is in the address, so that a page that is loaded again shows the same.
  function remember() {
    const words = new URLSearchParams();
    for (const name of ["filter", "group", "metric", "axis"]) {
      if (chosen[name]) {
        words.set(name, chosen[name]);
      }
    }
    if (chosen.runs.length) {
      words.set("runs", chosen.runs.join(","));
    }
    history.replaceState(null, "", `#${words}`);
  }

  function recall() {
    const words = new URLSearchParams(location.hash.slice(1));
    for (const name of ["filter", "group", "metric", "axis"]) {
      chosen[name] = words.get(name) || chosen[name];
    }
    chosen.axis = Object.hasOwn(Curves.AXES, chosen.axis) ? chosen.axis : "round";
    chosen.runs = (words.get("runs") || "").split(",").filter((id) => /^[0-9a-f]{16}$/.test(id));
  }

  function choose(name, value) {
    chosen[name] = value;
    remember();
    changed("chosen");
  }

  function pick(ids) {
    chosen.runs = Array.from(new Set(ids)).slice(0, 40);
    Array.from(curves.keys()).filter((id) => !chosen.runs.includes(id)).forEach((id) => curves.delete(id));
    remember();
    changed("picked");
    connect();
  }

  function toggle(id, isPicked) {
    pick(isPicked ? [...chosen.runs, id] : chosen.runs.filter((other) => other !== id));
  }

  // The stream.

  function tellConnection(name, words) {
    const shown = document.getElementById("connection");
    shown.dataset.state = name;
    shown.textContent = words;
  }

  function connect() {
    disconnect();
    const asked = new URLSearchParams({ runs: chosen.runs.join(","), since: state.last });
    source = new EventSource(`/events?${asked}`);
    for (const [name, take] of Object.entries({ hello, list, rows, study })) {
      source.addEventListener(name, (event) => {
        state.last = event.lastEventId;
        take(JSON.parse(event.data));
      });
    }
    source.addEventListener("error", () => {
      tellConnection("lost", "the server does not answer; trying again");
      // The browser tries again by itself, but not after an answer that is an error.
      if (source && source.readyState === EventSource.CLOSED) {
        again = setTimeout(connect, 2000);
      }
    });
  }

  function disconnect() {
    clearTimeout(again);
    if (source) {
      source.close();
      source = null;
    }
  }

  function hello(data) {
    if (state.boot !== data.boot) {
      state.boot = data.boot;
      studies.clear();
    }
    state.folder = data.folder;
    Parts.setLook(data.look);
    document.getElementById("folder").textContent = data.folder;
    document.getElementById("version").textContent = data.version;
    tellConnection("live", "live");
  }

  function list(data) {
    if (data.whole) {
      entries.clear();
    }
    data.gone.forEach((id) => entries.delete(id));
    data.entries.forEach((entry) => entries.set(entry.id, entry));
    if (data.groups) {
      state.groups = data.groups;
      changed("groups");
    }
    state.isComplete = true;
    changed("list");
  }

  function rows(data) {
    const known = curves.get(data.id);
    if (data.whole || !known) {
      curves.set(data.id, data);
    } else {
      curves.set(data.id, grown(known, data));
    }
    changed("curves");
  }

  // New arrays, by which the drawing library knows that they are others.
  function grown(known, more) {
    const base = known.x.round.length;
    const x = {};
    for (const name of Object.keys(known.x)) {
      x[name] = known.x[name].concat(more.x[name]);
    }
    const series = { ...known.series };
    for (const [name, added] of Object.entries(more.series)) {
      const before = series[name] || { at: [], mean: [] };
      const at = before.at.concat(added.at.map((place) => place + base));
      series[name] = { ...before, ...added, at, mean: before.mean.concat(added.mean) };
    }
    return { ...more, x, series };
  }

  function study(data) {
    const before = studies.get(data.id);
    const cells = new Map(before && !data.whole ? before.cells : []);
    data.cells.forEach((cell) => cells.set(cell.key, cell));
    studies.set(data.id, { ...data, cells });
    changed("studies");
  }

  // A study calls its methods by names of its own.
  function methodOf(entry) {
    for (const own of studies.values()) {
      for (const cell of own.cells.values()) {
        if (cell.run === entry.id) {
          return cell.method;
        }
      }
    }
    return entry.method;
  }

  function begin() {
    recall();
    connect();
    // A page that nobody sees asks for nothing.
    document.addEventListener("visibilitychange", () => (document.hidden ? disconnect() : connect()));
  }

  return { begin, changed, choose, chosen, curves, entries, methodOf, onChange, pick, state, studies, toggle };
})();
