// Parts that the pages share: elements, colours, tables, and what all figures have in common. It asks the network for nothing.
"use strict";

const Parts = (function () {
  const root = document.documentElement;
  const dark = window.matchMedia("(prefers-color-scheme: dark)");
  const CONFIG = { displaylogo: false, responsive: true, plotlyServerURL: "", showSendToCloud: false };
  // Pixels of a figure on paper, which has no window to fill.
  const ON_PAPER = { autosize: false, width: 660, height: 380 };
  let look = { colours: ["#0072B2"], dashes: ["solid"] };
  let isPrinting = false;

  function setLook(chosen) {
    look = chosen;
  }

  function setPrinting(value) {
    isPrinting = value;
  }

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
    // Within few decades every tick says its whole number, not its first digit.
    return decades > 2 ? { type: "log", dtick: 1 } : { type: "log", dtick: "D2", tickformat: "~g" };
  }

  function isWide(values) {
    return Math.min(...values) > 0 && Math.max(...values) > 100 * Math.min(...values);
  }

  // Controls.

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

  // A command in a box, with a button that copies it where the browser lets it.
  function command(words) {
    const box = make("div", { class: "command" });
    const shown = make("pre", { tabindex: "0" });
    shown.append(make("code", {}, words));
    const button = make("button", { type: "button", class: "copy", hidden: "" }, "Copy");
    box.append(shown, button);
    makeCopyable(button);
    return box;
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

  // Light and dark, as the system says or as chosen; `again` draws what is shown.
  function followTheme(select, again) {
    select.addEventListener("change", () => {
      if (select.value === "auto") {
        delete root.dataset.theme;
      } else {
        root.dataset.theme = select.value;
      }
      again();
    });
    dark.addEventListener("change", again);
  }

  return {
    CONFIG, all, choice, colour, command, dash, followTheme, glass, hovered, isDark, isWide, layout, make, makeCopyable,
    makeSortable, plain, radios, scale, setLook, setPrinting, text, tick,
  };
})();
