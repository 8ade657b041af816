// Each picked run by itself: why it ended, rejected updates, the report, and the commands that go on with it.
"use strict";

const Details = (function () {
  const { command, make } = Parts;
  const shown = new Map();

  function reportLink(id, words) {
    const link = make("a", { href: `/report?${new URLSearchParams({ of: id })}`, target: "_blank", rel: "noopener" }, words);
    const line = make("p", { class: "links" });
    line.append(link);
    return line;
  }

  // The command of the comparison or study that a run belongs to, where the run has none of its own.
  function rerunOf(entry) {
    const group = Board.state.groups.find((one) => one.command && one.runs.includes(entry.id));
    return entry.rerun || (group ? group.command : "");
  }

  function rejectedParts({ reasons, last }) {
    if (!reasons.length) {
      return [make("p", { class: "note" }, "No update was rejected.")];
    }
    const rows = reasons.map((one) => {
      const row = make("tr");
      row.append(make("th", { scope: "row" }, one.reason), make("td", { class: "number" }, String(one.count)));
      return row;
    });
    const lines = last.map((one) => {
      const row = make("tr");
      const cells = [String(one.round), String(one.client)].map((words) => make("td", { class: "number" }, words));
      row.append(...cells, make("td", {}, one.reason));
      return row;
    });
    const newest = make("details");
    newest.append(
      make("summary", {}, "The last of them"),
      Picked.sortedTable("Rejected updates", [["round", true], ["client", true], ["reason", false]], lines).scroll,
    );
    const heads = [["rejected updates: reason", false], ["number", true]];
    return [Picked.sortedTable("Reasons of rejected updates", heads, rows).scroll, newest];
  }

  function fill(box, entry, curves) {
    const body = [];
    if (entry.reason) {
      body.push(make("p", { class: "warning" }, `${entry.status}: ${entry.reason}`));
    }
    if (curves.damage) {
      body.push(make("p", { class: "warning" }, curves.damage));
    }
    const made = [entry.parameters, entry.outside].filter(Boolean).join("; ");
    body.push(make("p", { class: "note" }, `${entry.data}: ${entry.setting}`), make("p", { class: "note made" }, made), ...rejectedParts(curves.rejected));
    body.push(reportLink(entry.id, "Open the report of this run"), make("p", {}, "Go on where it stopped:"), command(entry.resume));
    const rerun = rerunOf(entry);
    if (rerun) {
      body.push(make("p", {}, "The same again:"), command(rerun));
    }
    box.replaceChildren(...body);
  }

  function draw() {
    const place = document.getElementById("details");
    const ids = Picked.drawn();
    const boxes = ids.map((id) => {
      const entry = Board.entries.get(id);
      const curves = Board.curves.get(id);
      const known = shown.get(id) || make("details", { "data-run": id });
      const now = JSON.stringify([entry.status, entry.reason, curves.damage, curves.rejected, rerunOf(entry)]);
      if (known.dataset.now !== now) {
        known.dataset.now = now;
        const head = make("summary");
        head.append(`${entry.name} `, List.statusOf(entry.status));
        const body = make("div");
        fill(body, entry, curves);
        known.replaceChildren(head, body);
      }
      return known;
    });
    shown.clear();
    ids.forEach((id, index) => shown.set(id, boxes[index]));
    if (boxes.length !== place.children.length || boxes.some((box, index) => place.children[index] !== box)) {
      place.replaceChildren(...boxes);
    }
  }

  return { draw, reportLink };
})();
