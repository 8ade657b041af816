// The page's own script: views, colours, sorting, and the figures. It asks the network for nothing.
"use strict";

(function () {
  const { look, views } = JSON.parse(document.getElementById("data").textContent);
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const AXES = { round: "rounds", bytes: "bytes exchanged", backprops: "backprops", seconds: "seconds" };
  const CONFIG = { displaylogo: false, responsive: true, plotlyServerURL: "", showSendToCloud: false };
  // Pixels of a figure on paper, which has no window to fill.
  const ON_PAPER = { autosize: false, width: 660, height: 380 };
  let isPrinting = false;

  // Small parts.

  function all(selector, within) {
    return Array.from((within || document).querySelectorAll(selector));
  }

  function make(tag, attributes, text) {
    const element = document.createElement(tag);
    for (const [name, value] of Object.entries(attributes || {})) {
      element.setAttribute(name, value);
    }
    if (text !== undefined) {
      element.textContent = text;
    }
    return element;
  }

  // Names are the user's words: the drawing library would read tags in them as markup.
  function plain(text) {
    return String(text).replace(/&/g, "&amp;").replace(/</g, "&lt;").replace(/>/g, "&gt;");
  }

  // The same for what hovers, where the library would also fill in what stands in %{...}.
  function hovered(text) {
    return plain(text).replace(/%\{/g, "%&#123;");
  }

  function isDark() {
    if (isPrinting) {
      return false;
    }
    const chosen = root.dataset.theme;
    return chosen ? chosen === "dark" : dark.matches;
  }

  function colour(index) {
    const own = look.colours[index % look.colours.length];
    return own === "#000000" && isDark() ? "#FFFFFF" : own;
  }

  function dash(index) {
    return look.dashes[Math.floor(index / look.colours.length) % look.dashes.length];
  }

  function glass(hex, share) {
    const parts = [1, 3, 5].map((place) => parseInt(hex.slice(place, place + 2), 16));
    return `rgba(${parts.join(",")},${share})`;
  }

  function text(value) {
    return value === null || value === undefined ? "–" : String(Number(value.toPrecision(5)));
  }

  // What all figures share.

  function layout(more) {
    const ink = isDark() ? "#e8eaee" : "#1d1f23";
    const paper = isDark() ? "#15171b" : "#ffffff";
    const rule = isDark() ? "#3a3f49" : "#d5d8de";
    const spikes = { spikecolor: isDark() ? "#a9afba" : "#565b64", spikethickness: 1, spikedash: "dot" };
    const axis = { gridcolor: rule, zerolinecolor: rule, linecolor: rule, automargin: true, exponentformat: "SI" };
    const { xaxis, yaxis, ...others } = more;
    return {
      paper_bgcolor: paper,
      plot_bgcolor: paper,
      font: { family: "system-ui, sans-serif", size: 13, color: ink },
      margin: { l: 56, r: 12, t: 12, b: 48 },
      legend: { orientation: "h", x: 0, y: 1.02, yanchor: "bottom" },
      hoverlabel: { namelength: -1, bgcolor: isDark() ? "#1e2127" : "#ffffff", bordercolor: rule, font: { color: ink } },
      modebar: { bgcolor: "rgba(0,0,0,0)", color: rule, activecolor: ink },
      xaxis: { ...axis, ...spikes, ...xaxis },
      yaxis: { ...axis, ...yaxis },
      ...(isPrinting ? ON_PAPER : { autosize: true }),
      ...others,
    };
  }

  // An axis; a logarithmic one has ticks that do not touch.
  function scale(isLog, values) {
    if (!isLog) {
      return { type: "linear" };
    }
    const positive = values.filter((value) => value > 0);
    const decades = Math.log10(Math.max(...positive) / Math.min(...positive));
    return { type: "log", dtick: decades > 2 ? 1 : "D2" };
  }

  function isWide(values) {
    return Math.min(...values) > 0 && Math.max(...values) > 100 * Math.min(...values);
  }

  // Curves with their ranges over seeds.

  function band(curve, xs, shade, group) {
    const outline = xs.concat(xs.slice().reverse());
    const around = curve.high.concat(curve.low.slice().reverse());
    return {
      x: outline, y: around, fill: "toself", fillcolor: glass(shade, 0.18), line: { width: 0 }, mode: "lines",
      hoverinfo: "skip", showlegend: false, legendgroup: group,
    };
  }

  function curveTraces(methods, name, axis) {
    const traces = [];
    const longest = Math.max(...methods.map((method) => Math.max(0, ...method.x[axis])));
    methods.forEach((method, index) => {
      const curve = method.series[name];
      if (!curve) {
        return;
      }
      const shade = colour(index);
      const group = String(index);
      const label = plain(method.method);
      const line = { color: shade, dash: dash(index), width: 2 };
      if (method.reference) {
        const last = curve.mean[curve.mean.length - 1];
        traces.push({
          x: [0, longest], y: [last, last], mode: "lines", name: label, legendgroup: group,
          line: { ...line, dash: "longdash" }, hovertemplate: `${hovered(method.method)}: %{y:.5g}<extra></extra>`,
        });
        return;
      }
      const xs = curve.at.map((place) => method.x[axis][place]);
      if (curve.low && xs.length > 1) {
        traces.push(band(curve, xs, shade, group));
      }
      traces.push({
        x: xs, y: curve.mean, mode: xs.length > 1 ? "lines" : "markers", name: label, legendgroup: group, line,
        marker: { color: shade, size: 8 }, text: curve.low ? ranges(curve) : undefined,
        hovertemplate: `${hovered(method.method)}: %{y:.5g}${curve.low ? " %{text}" : ""}<extra></extra>`,
      });
      if (method.diverged.length && xs.length) {
        traces.push({
          x: xs.slice(-1), y: curve.mean.slice(-1), mode: "markers", showlegend: false, legendgroup: group,
          marker: { symbol: "x", size: 10, color: shade },
          hovertemplate: `${hovered(method.method)}: diverged (seed ${method.diverged.join(", ")})<extra></extra>`,
        });
      }
    });
    return traces;
  }

  function ranges(curve) {
    return curve.low.map((low, place) => `(${text(low)} to ${text(curve.high[place])})`);
  }

  function drawCurves(plot, curves, state) {
    const metric = curves.metrics.find((one) => one.name === state.metric);
    const values = curves.methods.flatMap((method) => (method.series[state.metric] || { mean: [] }).mean);
    const yaxis = { title: { text: plain(metric.label) }, ...scale(state.log, values) };
    const xaxis = { title: { text: AXES[state.axis] }, rangemode: "tozero" };
    const size = state.axis === "bytes" ? { xaxis: { ...xaxis, ticksuffix: "B" } } : { xaxis };
    const traces = curveTraces(curves.methods, state.metric, state.axis);
    return Plotly.react(plot, traces, layout({ ...size, yaxis, hovermode: "x unified" }), CONFIG);
  }

  function choice(label, options, chosen, changed) {
    const select = make("select");
    for (const [value, words] of options) {
      select.append(make("option", { value }, words));
    }
    select.value = chosen;
    select.addEventListener("change", () => changed(select.value));
    const named = make("label", {}, `${label} `);
    named.append(select);
    return named;
  }

  let groups = 0;

  function radios(label, options, chosen, changed) {
    const field = make("fieldset");
    const name = `choice-${(groups += 1)}`;
    field.append(make("legend", {}, label));
    for (const [value, words] of options) {
      const input = make("input", { type: "radio", name, value });
      input.checked = value === chosen;
      input.addEventListener("change", () => changed(value));
      const named = make("label");
      named.append(input, ` ${words}`);
      field.append(named);
    }
    return field;
  }

  function tick(label, chosen, changed) {
    const input = make("input", { type: "checkbox" });
    input.checked = chosen;
    input.addEventListener("change", () => changed(input.checked));
    const named = make("label");
    named.append(input, ` ${label}`);
    return { named, input };
  }

  // A figure of curves has controls, and keeps what was chosen.
  function curvesFigure(figure, curves, names) {
    const metrics = names ? curves.metrics.filter((one) => names.includes(one.name)) : curves.metrics;
    const state = { metric: metrics[0].name, axis: "round", log: metrics[0].log };
    const plot = figure.querySelector(".plot");
    const controls = figure.querySelector(".controls");
    const draw = () => drawCurves(plot, curves, state);
    const again = () => {
      draw();
      if (!names) {
        writeNumbers(figure, curves, state);
      }
    };
    const log = tick("log scale", state.log, (value) => {
      state.log = value;
      again();
    });
    const axes = Object.entries(AXES);
    controls.append(
      choice("Number", metrics.map((one) => [one.name, one.label]), state.metric, (value) => {
        state.metric = value;
        state.log = metrics.find((one) => one.name === value).log;
        log.input.checked = state.log;
        again();
      }),
      radios("over", axes, state.axis, (value) => {
        state.axis = value;
        again();
      }),
      log.named,
    );
    controls.hidden = false;
    if (!names) {
      prepareNumbers(figure, curves, state);
    }
    return draw;
  }

  // The same numbers as a table, for those who cannot see a figure.
  function prepareNumbers(figure, curves, state) {
    const details = figure.parentElement.querySelector("details.numbers");
    details.hidden = false;
    details.addEventListener("toggle", () => writeNumbers(figure, curves, state));
  }

  function writeNumbers(figure, curves, state) {
    const details = figure.parentElement.querySelector("details.numbers");
    if (!details.open) {
      return;
    }
    const methods = curves.methods.filter((method) => method.series[state.metric]);
    const rounds = new Map();
    methods.forEach((method, column) => {
      const curve = method.series[state.metric];
      curve.at.forEach((place, order) => {
        const round = method.x.round[place];
        if (!rounds.has(round)) {
          rounds.set(round, methods.map(() => null));
        }
        rounds.get(round)[column] = curve.mean[order];
      });
    });
    const table = make("table");
    table.append(make("caption", {}, curves.metrics.find((one) => one.name === state.metric).label));
    const head = table.createTHead().insertRow();
    head.append(make("th", { scope: "col" }, "round"));
    methods.forEach((method) => head.append(make("th", { scope: "col", class: "number" }, method.method)));
    const body = table.createTBody();
    for (const round of Array.from(rounds.keys()).sort((a, b) => a - b)) {
      const row = body.insertRow();
      row.append(make("th", { scope: "row" }, String(round)));
      rounds.get(round).forEach((value) => row.append(make("td", { class: "number" }, text(value))));
    }
    const scroll = make("div", { class: "scroll", role: "region", tabindex: "0", "aria-label": "numbers of the figure" });
    scroll.append(table);
    details.querySelector("div").replaceChildren(scroll);
  }

  // Flatness.

  function placeOf(view, method) {
    const methods = views[view].curves ? views[view].curves.methods.map((one) => one.method) : [];
    const place = methods.indexOf(method);
    return place < 0 ? 0 : place;
  }

  function drawSpectra(plot, view) {
    const spectra = views[view].flatness.spectra.items;
    const values = spectra.flatMap((one) => one.ys);
    const traces = spectra.map((one) => ({
      x: one.ys.map((_, place) => place + 1), y: one.ys, mode: "lines+markers", name: plain(one.method),
      line: { color: colour(placeOf(view, one.method)), width: 1 }, marker: { color: colour(placeOf(view, one.method)), size: 7 },
      hovertemplate: `${hovered(one.method)}: λ%{x} = %{y:.5g}<extra></extra>`,
    }));
    const yaxis = { title: { text: "eigenvalue" }, ...scale(isWide(values), values) };
    const most = Math.max(...spectra.map((one) => one.ys.length));
    const xaxis = { title: { text: "rank" }, tick0: 1, dtick: Math.ceil(most / 12) };
    return Plotly.react(plot, traces, layout({ xaxis, yaxis, showlegend: true }), CONFIG);
  }

  function drawDensities(plot, view) {
    const spectra = views[view].flatness.densities.items;
    const highest = Math.max(...spectra.flatMap((one) => one.ys));
    const traces = spectra.map((one) => ({
      x: one.xs, y: one.ys.map((value) => Math.max(value, highest * 1e-7)), mode: "lines", name: plain(one.method),
      line: { color: colour(placeOf(view, one.method)), width: 2 },
      hovertemplate: `${hovered(one.method)}: %{y:.3g} at %{x:.4g}<extra></extra>`,
    }));
    const yaxis = { title: { text: "density" }, type: "log", exponentformat: "power" };
    return Plotly.react(plot, traces, layout({ xaxis: { title: { text: "eigenvalue" } }, yaxis, showlegend: true }), CONFIG);
  }

  function landscapeColours(view, items) {
    const methods = views[view].curves ? views[view].curves.methods.map((one) => one.method) : [];
    const places = items.map((item) => methods.indexOf(item.label));
    const areClear = places.every((place) => place >= 0) && new Set(places).size === places.length;
    return items.map((_, index) => colour(areClear ? places[index] : index));
  }

  function drawSurfaces(plot, view, number) {
    const landscape = views[view].flatness.landscapes[number];
    const shades = landscapeColours(view, landscape.items);
    const losses = landscape.items.flatMap((item) => item.losses.flat()).filter((value) => value !== null);
    const isLog = isWide(losses);
    const traces = landscape.items.map((item, index) => ({
      type: "surface", x: item.xs, y: item.ys, z: item.losses, name: plain(item.label), showlegend: true, showscale: false,
      colorscale: [[0, shades[index]], [1, shades[index]]], opacity: landscape.items.length > 1 ? 0.75 : 1,
      lighting: { ambient: 0.55, diffuse: 0.7, specular: 0.1, roughness: 0.9 },
      contours: { z: { show: true, usecolormap: false, color: isDark() ? "#e8eaee" : "#1d1f23", width: 1 } },
      hovertemplate: `${hovered(item.label)}<br>loss %{z:.4g}<br>at (%{x:.3g}, %{y:.3g})<extra></extra>`,
    }));
    const rule = isDark() ? "#3a3f49" : "#d5d8de";
    const axis = { gridcolor: rule, zerolinecolor: rule };
    const scene = {
      xaxis: { ...axis, title: { text: plain(landscape.x_name) } },
      yaxis: { ...axis, title: { text: plain(landscape.y_name) } },
      zaxis: { ...axis, title: { text: isLog ? "loss (log scale)" : "loss" }, type: isLog ? "log" : "linear" },
      aspectratio: { x: 1, y: 1, z: 0.8 },
      camera: { eye: { x: 1.3, y: -1.75, z: 0.85 }, center: { x: 0, y: 0, z: -0.12 } },
    };
    const legend = { orientation: "h", x: 0, y: 1, yanchor: "bottom" };
    return Plotly.react(plot, traces, layout({ scene, legend, margin: { l: 0, r: 0, t: 0, b: 0 } }), CONFIG);
  }

  function drawLines(plot, view, number) {
    const landscape = views[view].flatness.landscapes[number];
    const shades = landscapeColours(view, landscape.items);
    const traces = landscape.items.map((item, index) => ({
      x: item.xs, y: item.losses, mode: "lines", name: plain(item.label), line: { color: shades[index], width: 2 },
      hovertemplate: `${hovered(item.label)}: %{y:.4g} at %{x:.3g}<extra></extra>`,
    }));
    const xaxis = { title: { text: plain(landscape.x_name) } };
    return Plotly.react(plot, traces, layout({ xaxis, yaxis: { title: { text: "loss" } }, showlegend: true }), CONFIG);
  }

  // Clients.

  function drawClasses(plot, view) {
    const { counts, classes } = views[view].clients.classes;
    const across = classes.map((_, column) => counts.map((row) => row[column]));
    const shades = isDark()
      ? [[0, "#15171b"], [0.001, "#123349"], [0.35, "#0072B2"], [0.7, "#56B4E9"], [1, "#E8F4FC"]]
      : [[0, "#ffffff"], [0.001, "#D6E8F5"], [0.35, "#56B4E9"], [0.7, "#0072B2"], [1, "#00243A"]];
    const trace = {
      type: "heatmap", z: across, y: classes.map(plain), x: counts.map((_, client) => client), colorscale: shades, zmin: 0,
      colorbar: { title: { text: "examples", side: "right" }, thickness: 12, outlinewidth: 0 },
      hovertemplate: "client %{x}, class %{y}: %{z} examples<extra></extra>", xgap: counts.length > 120 ? 0 : 1, ygap: 1,
    };
    const yaxis = { title: { text: "class" }, type: "category", showgrid: false };
    const xaxis = { title: { text: "client" }, showgrid: false, zeroline: false };
    return Plotly.react(plot, [trace], layout({ xaxis, yaxis }), CONFIG);
  }

  function drawParticipation(plot, view) {
    const groups = views[view].clients.participation;
    const isHistogram = groups.some((group) => group.histogram);
    const traces = groups.map((group, index) => ({
      type: "bar", x: group.x, y: group.y, name: plain(group.name), marker: { color: colour(index), line: { width: 0 } },
      hovertemplate: isHistogram
        ? `${hovered(group.name)}: %{y} clients took part %{x} times<extra></extra>`
        : `${hovered(group.name)}: client %{x} took part %{y} times<extra></extra>`,
    }));
    const xaxis = { title: { text: isHistogram ? "rounds that a client took part in" : "client" } };
    const yaxis = { title: { text: isHistogram ? "clients" : "rounds" } };
    return Plotly.react(plot, traces, layout({ xaxis, yaxis, barmode: "group", bargap: 0.15, showlegend: true }), CONFIG);
  }

  function drawAccuracies(plot, view, number) {
    const traces = views[view].clients.accuracies[number].methods.map((one) => ({
      type: "box", y: one.values, name: plain(one.method), boxpoints: one.values.length > 400 ? false : "all", jitter: 0.4,
      pointpos: 0, marker: { color: colour(placeOf(view, one.method)), size: 4, opacity: 0.6 },
      line: { color: colour(placeOf(view, one.method)), width: 1.5 }, hovertemplate: "%{y:.4g} %<extra></extra>",
    }));
    const yaxis = { title: { text: `${plain(views[view].clients.accuracies[number].name)} (%)` } };
    return Plotly.react(plot, traces, layout({ xaxis: { type: "category" }, yaxis, showlegend: false }), CONFIG);
  }

  const SIMPLE = {
    spectra: drawSpectra, densities: drawDensities, surfaces: drawSurfaces, lines: drawLines, classes: drawClasses,
    participation: drawParticipation, accuracies: drawAccuracies,
  };

  // A figure is drawn when it is first seen: a study has many.
  const drawn = new Map();

  function prepare(figure) {
    const view = Number(figure.dataset.view);
    const kind = figure.dataset.figure;
    if (kind === "curves") {
      return curvesFigure(figure, views[view].curves);
    }
    if (kind === "watched") {
      return curvesFigure(figure, views[view].curves, views[view].flatness.watched);
    }
    const plot = figure.querySelector(".plot");
    return () => SIMPLE[kind](plot, view, Number(figure.dataset.number));
  }

  function draw(figure) {
    if (!drawn.has(figure)) {
      drawn.set(figure, prepare(figure));
    }
    return drawn.get(figure)();
  }

  // Surfaces hold a part of the graphics memory, of which a browser has few.
  function release(figure) {
    if (drawn.has(figure)) {
      Plotly.purge(figure.querySelector(".plot"));
    }
  }

  const seen = new IntersectionObserver((entries) => {
    for (const entry of entries) {
      const isEmpty = !entry.target.querySelector(".plot").classList.contains("js-plotly-plot");
      if (entry.isIntersecting && isEmpty) {
        draw(entry.target);
      }
    }
  }, { rootMargin: "300px" });

  function shownFigures() {
    return all("figure").filter((figure) => !figure.closest("[hidden]"));
  }

  function drawAgain() {
    shownFigures().filter((figure) => drawn.has(figure)).forEach(draw);
  }

  // Views.

  function showView(number) {
    for (const view of all(".view")) {
      const isShown = Number(view.dataset.view) === number;
      view.hidden = !isShown;
      if (!isShown) {
        all("figure", view).forEach(release);
      }
    }
    writeContents();
  }

  function writeContents() {
    const list = make("ul");
    all("main section > h2").filter((head) => !head.closest("[hidden]")).forEach((head, place) => {
      head.id = `part-${place}`;
      const item = make("li");
      item.append(make("a", { href: `#part-${place}` }, head.textContent));
      list.append(item);
    });
    document.querySelector("nav").replaceChildren(list);
  }

  // Colours.

  function chooseTheme(theme) {
    if (theme === "auto") {
      delete root.dataset.theme;
    } else {
      root.dataset.theme = theme;
    }
    drawAgain();
  }

  // Tables.

  function makeSortable(table) {
    all("thead th", table).forEach((head, column) => {
      const button = make("button", { type: "button" }, head.textContent);
      head.replaceChildren(button);
      button.addEventListener("click", () => sort(table, head, column));
    });
  }

  function sort(table, head, column) {
    const isNumber = head.classList.contains("number");
    const before = head.getAttribute("aria-sort");
    // Numbers begin with the largest, words with the first.
    const first = isNumber ? "descending" : "ascending";
    const second = isNumber ? "ascending" : "descending";
    const now = before === first ? second : first;
    all("thead th", table).forEach((other) => other.removeAttribute("aria-sort"));
    head.setAttribute("aria-sort", now);
    const rows = all("tbody tr", table);
    const sign = now === "ascending" ? 1 : -1;
    rows.sort((one, other) => compare(one.cells[column], other.cells[column], isNumber, sign));
    table.tBodies[0].append(...rows);
  }

  function compare(one, other, isNumber, sign) {
    const [a, b] = [one.dataset.sort, other.dataset.sort];
    // What has no value stands last, whatever the direction.
    if (a === undefined || b === undefined) {
      return (a === undefined) - (b === undefined);
    }
    return sign * (isNumber ? Number(a) - Number(b) : a.localeCompare(b, "en", { numeric: true }));
  }

  function makeCopyable(button) {
    const code = button.parentElement.querySelector("code");
    if (!navigator.clipboard) {
      return;
    }
    button.hidden = false;
    button.addEventListener("click", () => {
      navigator.clipboard.writeText(code.textContent).then(
        () => { button.textContent = "Copied"; },
        () => { button.textContent = "Not copied"; },
      );
    });
  }

  function begin() {
    all("table[data-sortable]").forEach(makeSortable);
    all("button.copy").forEach(makeCopyable);
    document.querySelector(".switches").hidden = false;
    document.getElementById("theme").addEventListener("change", (event) => chooseTheme(event.target.value));
    dark.addEventListener("change", drawAgain);
    const select = document.getElementById("view");
    if (select) {
      select.addEventListener("change", () => showView(Number(select.value)));
    }
    showView(select ? Number(select.value) : 0);
    all("figure").forEach((figure) => seen.observe(figure));
    window.addEventListener("beforeprint", () => {
      isPrinting = true;
      shownFigures().forEach(draw);
    });
    window.addEventListener("afterprint", () => {
      isPrinting = false;
      drawAgain();
    });
  }

  begin();
})();
