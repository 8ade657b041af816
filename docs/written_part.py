"""A part of a page that a script writes, between two marks; the rest of the page is written by hand."""

import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class WrittenPart:
    """Where a part stands, and what makes it.

    Attributes:
        page: the file.
        name: what stands in the marks.
        by: the command that writes it, for people.
        content: what makes it.
    """

    page: Path
    name: str
    by: str
    content: Callable[[], str]

    def within(self, text: str) -> str:
        """Return the page with the part as it is now."""
        begin, end = f"<!-- {self.name}: made by {self.by} -->\n", f"<!-- end of {self.name} -->"
        before, _, rest = text.partition(begin)
        return f"{before}{begin}\n{self.content()}\n\n{end}{rest.partition(end)[2]}"

    def main(self) -> None:
        """Write it or, with `--check`, fail where it is out of date."""
        now = self.page.read_text(encoding="utf-8")
        if sys.argv[1:] == ["--check"]:
            sys.exit(0 if self.within(now) == now else f"{self.page} is out of date; run {self.by}")
        self.page.write_text(self.within(now), encoding="utf-8")
