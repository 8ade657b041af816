"""Whether a site allows what a server asks for; a limit is the site's own, and no server can change it."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import listed
from flatfed.core.method.algorithm import Algorithm
from flatfed.engines.sites.assignment import Assignment
from flatfed.models.catalogue import KIND
from flatfed.outside.installed import installed_parts
from flatfed.runs.fingerprints import code_fingerprint
from flatfed.runs.records.files import replace_file
from flatfed.site.config import Limits
from flatfed.site.data import NotAllowed


def check_run(
    assignment: Assignment, algorithm: Algorithm, settings: Settings, counts: list[int], limits: Limits
) -> None:
    """Refuse a run that goes beyond the limits."""
    methods, models, code = _words(limits.methods), _words(limits.models), _words(limits.code)
    if methods and algorithm.id not in methods:
        raise NotAllowed(f"this site does not allow the method {algorithm.id!r:.60}, only {listed(methods)}")
    if _is_outside(assignment.model.name) and assignment.model.name not in models:
        raise NotAllowed(f"this site does not allow the code {assignment.model.name!r:.80}; name it in limits.models")
    own = code_fingerprint()
    if assignment.code != own:
        raise NotAllowed(
            f"this site has the flatfed {own[:12]}, the server {assignment.code[:12]}; take the same release"
        )
    if code and own not in code:
        raise NotAllowed("this site allows flatfed only in other releases than the one that is installed (limits.code)")
    if min(counts) < limits.min_examples:
        raise NotAllowed(
            f"a client here has {min(counts)} examples, and this site trains on {limits.min_examples} or more"
        )
    smallest = min(_smallest_batch(count, settings.batch_size) for count in counts)
    if smallest < limits.min_batch:
        raise NotAllowed(
            f"with batch_size={settings.batch_size} a batch here would have {smallest} examples, and this site takes "
            f"{limits.min_batch} or more; choose another batch size"
        )


def _is_outside(model: str) -> bool:
    """Say whether a model is none of flatfed's own: to build it imports code."""
    return ":" in model or model in installed_parts(KIND)


def _smallest_batch(count: int, size: int | None) -> int:
    """Return how many examples the smallest batch of a client's epoch has: the last one may be short."""
    if size is None or count <= size:
        return count
    return count % size or size


def _words(value: object) -> list[str]:
    assert isinstance(value, tuple)
    return list(value)


def _digest(parts: Sequence[bytes]) -> str:
    digest = hashlib.sha256()
    for part in parts:
        digest.update(part)
    return digest.hexdigest()


class RoundCounter:
    """Counts the rounds of a day, on disk, so that a restart does not begin anew.

    Every request for training counts once, whatever the server calls its round: a method with two exchanges takes
    two, and so does a round that is tried again. The very same request counts once however often it comes.
    """

    def __init__(self, folder: Path, most: int | None) -> None:
        self._path, self._most = folder / "rounds.json", most

    def admit(self, request: Sequence[bytes]) -> None:
        """Count a request, given in parts; refuse it when the day is full."""
        if self._most is None:
            return
        day = datetime.now(UTC).date().isoformat()
        rounds = self._of(day)
        name = _digest(request)
        if name in rounds:
            return
        if len(rounds) >= self._most:
            raise NotAllowed(
                f"this site takes part in {self._most} rounds a day, which are done; try again tomorrow (UTC)"
            )
        replace_file(self._path, json.dumps({"day": day, "rounds": [*rounds, name]}).encode())

    def _of(self, day: str) -> list[str]:
        try:
            content = json.loads(self._path.read_text())
            rounds = [str(name) for name in content["rounds"]]
        except (OSError, ValueError, KeyError, TypeError):
            return []
        return rounds if content.get("day") == day else []
