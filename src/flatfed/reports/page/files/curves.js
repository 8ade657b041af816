// Curves over rounds and costs, with controls: what the report draws of methods, and the dashboard of runs.
"use strict";

const Curves = (function () {
  const { CONFIG, choice, colour, dash, glass, hovered, layout, make, plain, radios, scale, text, tick } = Parts;
  const AXES = { round: "rounds", bytes: "bytes exchanged", backprops: "backprops", seconds: "seconds" };

  // Curves with their ranges over seeds.

  function band(curve, xs, shade, group) {
    const outline = xs.concat(xs.slice().reverse());
    const around = curve.high.concat(curve.low.slice().reverse());
    return {
      x: outline, y: around, fill: "toself", fillcolor: glass(shade, 0.18), line: { width: 0 }, mode: "lines",
      hoverinfo: "skip", showlegend: false, legendgroup: group,
    };
  }

  // Rounds that were evaluated more often, behind the line through the even ones: noise does not begin there.
  function denseTraces(method, curve, axis, shade, group) {
    return (curve.dense || []).map((stretch) => ({
      x: stretch.at.map((place) => method.x[axis][place]), y: stretch.mean, mode: "lines",
      line: { color: glass(shade, 0.45), width: 1 }, hoverinfo: "skip", showlegend: false, legendgroup: group,
    }));
  }

  function curveTraces(methods, name, axis) {
    const traces = [];
    const longest = Math.max(...methods.map((method) => Math.max(0, ...method.x[axis])));
    methods.forEach((method, index) => {
      const curve = method.series[name];
      if (!curve) {
        return;
      }
      // Runs of one method have one colour, and differ in their lines.
      const shade = colour(method.place === undefined ? index : method.place);
      const group = String(index);
      const label = plain(method.method);
      const line = { color: shade, dash: method.dash || dash(index), width: 2 };
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
      traces.push(...denseTraces(method, curve, axis, shade, group));
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
    // Whoever has zoomed in stays there while the curves grow.
    const uirevision = `${state.metric} ${state.axis}`;
    return Plotly.react(plot, traces, layout({ ...size, yaxis, uirevision, hovermode: "x unified" }), CONFIG);
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
      for (const drawn of [curve, ...(curve.dense || [])]) {
        drawn.at.forEach((place, order) => {
          const round = method.x.round[place];
          if (!rounds.has(round)) {
            rounds.set(round, methods.map(() => null));
          }
          rounds.get(round)[column] = drawn.mean[order];
        });
      }
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

  return { AXES, curvesFigure, drawCurves, writeNumbers };
})();
