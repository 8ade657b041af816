// The beginning: what is drawn when.
"use strict";

(function () {
  function draw(news) {
    const hasRuns = Picked.drawn().length > 0;
    document.getElementById("nothing").hidden = hasRuns;
    document.getElementById("views").hidden = !hasRuns;
    if (hasRuns && ["picked", "curves", "chosen", "list"].some((name) => news.has(name))) {
      Picked.drawCurves();
      Picked.drawTable();
      Picked.drawCompare();
      Details.draw();
    }
    if (["studies", "groups", "list"].some((name) => news.has(name))) {
      Studies.draw();
    }
  }

  Board.onChange(draw);
  Parts.followTheme(document.getElementById("theme"), () => Board.changed("chosen"));
  Board.begin();
  List.begin();
})();
