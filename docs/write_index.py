"""Write the index of methods, counted from the registry, into docs/algorithms/README.md."""

import sys
from pathlib import Path

from flatfed.experiments.comparing.index import markdown

PAGE = Path(__file__).parent / "algorithms" / "README.md"
BEGIN, END = "<!-- index: made by `make index` -->\n", "<!-- end of index -->"


def with_index(text: str) -> str:
    """Return the page with the index as it is now."""
    before, _, rest = text.partition(BEGIN)
    return f"{before}{BEGIN}\n{markdown()}\n{END}{rest.partition(END)[2]}"


if __name__ == "__main__":
    now = PAGE.read_text(encoding="utf-8")
    if sys.argv[1:] == ["--check"]:
        sys.exit(0 if with_index(now) == now else "the index is out of date; run `make index`")
    PAGE.write_text(with_index(now), encoding="utf-8")
