// The report's own script: views, sorting, and the figures. It asks the network for nothing.
"use strict";

(function () {
  const {
    CONFIG, all, colour, followTheme, hovered, isDark, isWide, layout, make, makeCopyable, makeSortable, plain, scale, setLook,
    setPrinting,
  } = Parts;
  const { curvesFigure } = Curves;
  const { look, views } = JSON.parse(document.getElementById("data").textContent);

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

  function begin() {
    setLook(look);
    all("table[data-sortable]").forEach(makeSortable);
    all("button.copy").forEach(makeCopyable);
    document.querySelector(".switches").hidden = false;
    followTheme(document.getElementById("theme"), drawAgain);
    const select = document.getElementById("view");
    if (select) {
      select.addEventListener("change", () => showView(Number(select.value)));
    }
    showView(select ? Number(select.value) : 0);
    all("figure").forEach((figure) => seen.observe(figure));
    window.addEventListener("beforeprint", () => {
      setPrinting(true);
      shownFigures().forEach(draw);
    });
    window.addEventListener("afterprint", () => {
      setPrinting(false);
      drawAgain();
    });
  }

  begin();
})();
