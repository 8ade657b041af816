"""Examples on disk: their tensors by name, and the form of those that are more than a pair of tensors."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from torch import Tensor

from flatfed.core.errors import CheckpointError
from flatfed.core.task.examples import Partition, TensorExamples
from flatfed.core.task.ragged import Ragged
from flatfed.core.task.roster import Roster
from flatfed.core.task.structures import Structure
from flatfed.core.task.task import Task
from flatfed.runs.described.import_paths import CannotDescribe

Tensors = dict[str, Tensor]
Form = Any
"""`tensor`; `{"tuple": [...]}`, `{"dict": {...}}` of forms; or `{"ragged": pad}`."""

PLAIN = "tensor"


class ExamplesDescriber:
    """Puts the tensors of examples beside a recipe; `forms` holds the forms of sets that are not plain pairs."""

    def __init__(self, tensors: Tensors) -> None:
        self._tensors = tensors
        self.forms: dict[str, dict[str, Form]] = {}

    def examples(self, examples: Any, name: str) -> dict[str, Any]:
        """Describe one set of examples."""
        if not isinstance(examples, TensorExamples):
            raise CannotDescribe(f"{name} is a {type(examples).__name__}, not a pair of tensors")
        parts = {"x": examples.inputs, "y": examples.targets}
        forms = {part: self._form(structure, f"{name}/{part}") for part, structure in parts.items()}
        if set(map(str, forms.values())) != {PLAIN}:
            self.forms[name] = forms
        return {"count": len(examples)}

    def clients(self, task: Task) -> dict[str, Any]:
        """Describe everyone's examples."""
        if isinstance(task.clients, Partition):
            self.examples(task.clients.pool, "pool")
            for client, part in enumerate(task.clients.parts):
                self._tensors[f"part/{client}"] = part
            return {"pool": True, "count": task.population}
        if isinstance(task.clients, Roster):
            return {"pool": False, "count": task.population, "roster": list(task.clients.counts)}
        for client in range(task.population):
            self.examples(task.examples(client), f"client/{client}")
        return {"pool": False, "count": task.population}

    def _form(self, structure: Structure, path: str) -> Form:
        if isinstance(structure, Tensor):
            # Copies: clients' tensors may be slices of one, and safetensors refuses tensors that share memory.
            self._tensors[path] = structure.clone()
            return PLAIN
        if isinstance(structure, Ragged):
            self._tensors[f"{path}/values"] = structure.values.clone()
            self._tensors[f"{path}/ends"] = structure.ends.clone()
            return {"ragged": structure.pad}
        if isinstance(structure, Mapping):
            entries = enumerate(structure.items())
            return {"dict": {str(name): self._form(entry, f"{path}/{place}") for place, (name, entry) in entries}}
        if isinstance(structure, tuple | list):
            return {"tuple": [self._form(entry, f"{path}/{place}") for place, entry in enumerate(structure)]}
        raise CannotDescribe(f"{path} holds a {type(structure).__name__}")


class ExamplesRebuilder:
    """Builds examples again from their tensors and forms."""

    def __init__(self, tensors: Tensors, forms: Mapping[str, Mapping[str, Form]]) -> None:
        self._tensors, self._forms = tensors, forms

    def examples(self, name: str) -> TensorExamples:
        """Return one set of examples."""
        return TensorExamples(*self._pair(name))

    def clients(self, described: Mapping[str, Any]) -> Any:
        """Return everyone's examples."""
        count = range(described["count"])
        if "roster" in described:
            return Roster(described["roster"])
        if described["pool"]:
            return Partition(*self._pair("pool"), [self._tensors[f"part/{k}"] for k in count])
        return [self.examples(f"client/{k}") for k in count]

    def _pair(self, name: str) -> tuple[Structure, Structure]:
        forms = self._forms.get(name, {})
        inputs, targets = (self._structure(forms.get(part, PLAIN), f"{name}/{part}") for part in ("x", "y"))
        return inputs, targets

    def _structure(self, form: Form, path: str) -> Structure:
        match form:
            case "tensor":
                return self._tensors[path]
            case {"ragged": pad}:
                return Ragged.of(self._tensors[f"{path}/values"], self._tensors[f"{path}/ends"], pad)
            case {"dict": entries}:
                names = enumerate(entries.items())
                return {name: self._structure(entry, f"{path}/{place}") for place, (name, entry) in names}
            case {"tuple": entries}:
                return tuple(self._structure(entry, f"{path}/{place}") for place, entry in enumerate(entries))
        raise CheckpointError(f"the record of a task has examples of a form that is not known: {form!r:.60}")
