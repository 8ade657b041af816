"""Who hears how far a measurement is, what is remarked on the way, and which of several runs failed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sized
from contextlib import contextmanager

from flatfed.core.errors import FlatfedError

OnStep = Callable[[str, int, int | None], None]
"""Hears what is being done, how much of it is done, and of how much (None while that is not known)."""

OnCount = Callable[[str, int, int], None]
"""The same, where the whole is always known."""

Say = Callable[[str], None]
"""Hears remarks."""


def nobody(*words: object) -> None:
    """Hear nothing: for those who do not ask."""


class Failures:
    """The errors of runs that are measured together: one run's does not stop the others.

    An error is said beside the run's name at once where there are others; where no run succeeds, the first is raised.
    """

    def __init__(self, runs: int, say: Say) -> None:
        self._is_alone, self._say = runs == 1, say
        self._errors: list[FlatfedError] = []

    @contextmanager
    def noted(self, name: object) -> Iterator[None]:
        """Go on after an error of this run."""
        try:
            yield
        except FlatfedError as error:
            self._errors.append(error)
            if not self._is_alone:
                self._say(f"{name}: {error}")

    def check(self, results: Sized) -> None:
        """Raise the first error where there are no results."""
        if not results:
            raise self._errors[0]
