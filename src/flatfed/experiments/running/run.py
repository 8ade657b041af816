"""A run: what training returns, or what is loaded from a run directory, where nothing is trained or written."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import torch
from torch import Tensor, nn

from flatfed.core.configuration.config import build
from flatfed.core.configuration.settings import Settings
from flatfed.core.errors import CheckpointError, ConfigError, listed
from flatfed.core.model.layout import LOCAL_PARAMETERS
from flatfed.core.round.federation import Federation, Status
from flatfed.core.steering.history_columns import HistoryColumns
from flatfed.core.steering.steering import Steering
from flatfed.core.task.metrics import Shown
from flatfed.core.task.task import TEST, Task
from flatfed.core.task.validation import HeldOut
from flatfed.data.tables.preprocessing import KEY as PREPROCESSING
from flatfed.data.tables.preprocessing import Preprocessing
from flatfed.engines.choice import Workers
from flatfed.engines.in_process import InProcessEngine
from flatfed.experiments.planning.outside_parts import code_changes
from flatfed.experiments.planning.plan import Plan
from flatfed.experiments.running.inference_model import Weights, inference_model, kept_by, weights_of
from flatfed.experiments.running.model_metrics import OnClients, measure_clients, measure_tests, statistics_of
from flatfed.experiments.tasks.recipe import preprocessing_of, task_of
from flatfed.runs.checkpoints import Loaded, restore
from flatfed.runs.directory import RunDirectory, is_run
from flatfed.runs.history import History, Row
from flatfed.runs.metrics import describe_metrics, ended_after, metrics_of, primary_of, summarise

STOPPING = ("stop_when", "patience")
"""Settings that end a run before its last round."""


@dataclass(frozen=True)
class BestModel:
    """The model of the best evaluation.

    Attributes:
        round: after how many rounds it was.
        column: the column of the history that decided.
        value: what it was there.
        vector: the evaluated parameters, flat, in `model.parameters()` order.
    """

    round: int
    column: str
    value: float
    vector: Tensor


if TYPE_CHECKING:
    from flatfed.experiments.exporting.exported_model import ExportedModel
    from flatfed.experiments.predicting.predictions import Prediction

Say = Callable[[str], None]


class Run:
    """The result of training: the model, its history and every state, in `model.parameters()` order.

    Attributes:
        status: `finished`, `diverged`, `stopped`, `interrupted` or `failed`; `reason` says why.
        directory: the records in the run directory, or None.
    """

    def __init__(
        self,
        federation: Federation,
        history: History | list[Row],
        directory: RunDirectory | None,
        validation: HeldOut | None = None,
    ) -> None:
        self._federation, self._validation = federation, validation
        self._layout = federation.task.layout()
        self._history = history
        self.directory = directory

    @property
    def history(self) -> list[Row]:
        """One dictionary per round."""
        if isinstance(self._history, History):
            return self._history.rows
        return self._history

    @property
    def path(self) -> Path | None:
        """The run directory, or None."""
        return None if self.directory is None else self.directory.path

    @property
    def round(self) -> int:
        """How many rounds the model has behind it; fewer than the history where a checkpoint was passed over."""
        return self._federation.round

    @property
    def status(self) -> str:
        """How the run ended."""
        return self._federation.status

    @property
    def reason(self) -> str:
        """Why it ended so, if there is something to say."""
        return self._federation.reason

    @property
    def vector(self) -> Tensor:
        """The final global parameters, flat, in `model.parameters()` order."""
        return self._layout.to_public(self._federation.server.w)

    @property
    def eval_vector(self) -> Tensor:
        """What is evaluated: equal to `vector` unless an average is on; metrics of `vector` are then `global_...`."""
        return self._layout.to_public(self._federation.evaluated)

    @property
    def best(self) -> BestModel | None:
        """The model of the best evaluation by the monitored column, where `keep_best` is on; None before there is one.

        Of a run directory, `ff.load_run(path, best=True)` is the whole run as it was then.
        """
        steering = self._federation.steering
        best = None if steering is None else steering.best
        if best is None:
            return None
        vector = self._layout.to_public(self._best_vector(best.round))
        return BestModel(best.round + 1, best.column.name, best.value, vector)

    def _best_vector(self, round: int) -> Tensor:
        kept = self._federation.best_model
        if kept is not None and kept.round == round:
            return kept.evaluated
        assert self.directory is not None  # without one, no round was played elsewhere than here
        return restored(self.directory, self._federation.task, round=round + 1)[1].evaluated

    @property
    def server_state(self) -> dict[str, Any]:
        """What the server keeps: flat tensors in public order, and numbers."""
        federation, average = self._federation, self._federation.average
        kept = federation.server.kept.tensors()
        if average is not None:
            kept |= {f"{average.id}_{name}": tensor for name, tensor in federation.average_kept.tensors().items()}
        return {name: self._public(tensor) for name, tensor in kept.items()}

    def client_state(self, client: int) -> dict[str, Any]:
        """Return what a client keeps between rounds (its initial state if it never took part)."""
        if not 0 <= client < self._federation.task.population:
            raise IndexError(f"there is no client {client}; they are 0 to {self._federation.task.population - 1}")
        kept = self._federation.clients.read(client).tensors()
        state = {name: self._public(tensor) for name, tensor in kept.items()}
        if LOCAL_PARAMETERS in kept:
            state[LOCAL_PARAMETERS] = self._layout.local_to_public(kept[LOCAL_PARAMETERS])
        return state

    def model(self, weights: Weights = "evaluated", client: int | None = None) -> nn.Module:
        """Return a copy of the task's model in inference mode, with the final parameters and buffers.

        Args:
            weights: with weight averaging, the averaged model that is `evaluated`, or the last `global` one.
            client: with the layers and statistics that this client keeps; else those are as at the start.
        """
        return inference_model(self._federation, weights, client)

    def export(self, path: str | Path, format: str | None = None, **options: Any) -> list[Path]:
        """Write the model for use elsewhere, with a model card; return the files.

        Args:
            path: a folder, or a file that ends in `.safetensors`, `.pt` or `.onnx`.
            format: `safetensors`, `torch`, `onnx` or `hf`; a file's name says it by its ending.
            options: `weights` and `client` as for `model`; `dtype` ("float16"); `raw_inputs` (the ONNX graph prepares
                its inputs itself); `say`, called with remarks.
        """
        # Not before: to train or to load a run needs none of it.
        from flatfed.experiments.exporting.export_model import export_model

        weights, client = options.pop("weights", "evaluated"), options.pop("client", None)
        return export_model(self._exported(weights, client), Path(path), format, **options)

    def predict(
        self,
        *files: str | Path,
        weights: Weights = "evaluated",
        client: int | None = None,
        say: Say = lambda text: None,
        **how: Any,
    ) -> list[Prediction]:
        """Return what the model says of new inputs: classes and probabilities, in the order of the files.

        Args:
            files: images, texts or tables, read as the run's own data were; `.npy` files are raw inputs of any task.
            weights: as for `model`.
            client: as for `model`.
            say: called with remarks.
            how: `resize=True` for images of another size; `whole=True` for files that are one text each; `column`, the
                one of a CSV file that holds the texts.
        """
        from flatfed.data.storage.new_inputs import FileReading
        from flatfed.experiments.exporting.local_layers import refuse_local_layers
        from flatfed.experiments.predicting.predictions import PredictingModel, open_inputs

        federation, w = self._federation, weights_of(self._federation, weights)
        kept = kept_by(federation, client)
        if client is None and self._layout.shared < self._layout.size:
            refuse_local_layers(self.task)
        predicting = PredictingModel(self.task, federation.settings, w, statistics_of(federation, w), kept)
        inputs = open_inputs(self.task, list(map(Path, files)), FileReading(**how))
        if predicting.needs_batch:
            say("BatchNorm takes its statistics from the inputs themselves, as in the run's tests: give many at once")
        return predicting.predict(inputs)

    @property
    def task(self) -> Task:
        """What was learnt."""
        return self._federation.task

    def _exported(self, weights: Weights, client: int | None) -> ExportedModel:
        from flatfed.experiments.exporting.exported_model import ExportedModel
        from flatfed.experiments.exporting.local_layers import refuse_local_layers

        federation = self._federation
        if client is None:
            refuse_local_layers(federation.task)
        return ExportedModel(
            model=self.model(weights, client),
            task=federation.task,
            config=self._record(),
            rows=self.history,
            round=self.round,
            status=self.status,
            reason=self.reason,
            path=self.path,
            weights=weights,
            client=client,
        )

    def _record(self) -> dict[str, Any]:
        """Return what decides the run: its record, or what that would be."""
        from flatfed.experiments.planning.setting import describe

        if self.directory is not None:
            return self.directory.config
        federation = self._federation
        parts = federation.task, federation.algorithm, federation.settings, federation.sampler, federation.average
        plan = Plan(*parts, workers=0, validation=self._validation)
        return plan.to_config() | {"setting": describe(plan), "task": {"kind": "memory", "name": federation.task.name}}

    @property
    def preprocessing(self) -> Preprocessing | None:
        """What turned the rows of a table into inputs, for rows to come; None where the data are of another kind."""
        record = preprocessing_of(self._federation.task)
        if self.directory is not None:
            record = self.directory.config
        return Preprocessing.from_dict(record[PREPROCESSING]) if PREPROCESSING in record else None

    def metrics(self, workers: Workers = 0) -> dict[str, Any]:
        """Return the metrics of the evaluated model on every test set; they do not depend on the workers.

        Where an average is evaluated and differs from the global model, the latter's stand beside: `global_accuracy`.
        """
        return measure_tests(self._federation, workers)

    def client_metrics(
        self, workers: Workers = 0, on_clients: OnClients = lambda done, total: None
    ) -> list[dict[str, Any]]:
        """Return loss and accuracy of the evaluated model on each client's own examples.

        Where parts of the model stay on the clients, each is measured with its own, in this process. A client with a
        single example has no metrics where BatchNorm would need its batch's statistics. `on_clients` is called with how
        many clients are done, of how many.
        """
        return measure_clients(self._federation, workers, on_clients)

    figures = metrics
    client_figures = client_metrics
    """The names that these two had before."""

    @property
    def summary(self) -> dict[str, Any]:
        """Final, last-n mean and best of each metric, cost and status."""
        settings, about = self._federation.settings, describe_metrics(self._federation.task)
        rounds = ended_after(self.history, settings.rounds, self.status)
        metrics = summarise(self.history, rounds, settings.evaluate_last, about)
        return metrics | {"status": self.status, "reason": self.reason}

    def _public(self, tensor: Tensor) -> Any:
        if tensor.ndim == 0:
            return float(tensor)
        sizes = (self._layout.size, self._layout.shared)
        # Known by type and length: counters and windows of numbers are not in a model's order.
        if tensor.dtype == self._federation.server.w.dtype and tensor.shape[-1] in sizes:
            flat = tensor.reshape(-1, tensor.shape[-1])
            public = torch.stack([self._layout.to_public(row) for row in flat])
            return public.reshape(*tensor.shape[:-1], -1)
        return tensor.clone()

    def __repr__(self) -> str:
        about = describe_metrics(self._federation.task)
        metric = primary_of(metrics_of(self.history, about), about)
        value = self.summary.get(f"{metric.stem}_final")
        shown = f", {metric.label} {value:.4f}" if value is not None else ""
        return f"<Run {self._federation.algorithm.id}: {self.status}, {len(self.history)} rounds{shown}>"


def warned(text: str) -> None:
    """Say a remark where nobody is there to hear it."""
    warnings.warn(text, stacklevel=2)


def load_run(
    path: str | Path,
    *,
    task: Task | None = None,
    trust: bool = False,
    data_dir: str | Path | None = None,
    say: Say = warned,
    accept_changed_data: bool = False,
    best: bool = False,
) -> Run:
    """Return the run in `path` as its newest good checkpoint has it: model, states, and the history up to there.

    Args:
        path: the run directory.
        task: needed only where the run was made from objects that no file can describe.
        trust: import the code that the run names, wherever it comes from: only for a run of somebody you trust.
        data_dir: where the data sets lie, if no longer where they were.
        say: called with remarks, such as a checkpoint that had to be passed over; they are warnings by default.
        accept_changed_data: open it although examples, labels or partition are not those that the run was made with.
        best: as the checkpoint after its best evaluation has it, where the run was trained with `keep_best`.
    """
    directory = open_run(Path(path), trust, accept_changed_data)
    round = best_round(directory) if best else None
    _, federation = restored(directory, task, data_dir, say, round)
    # The history may be ahead of the newest good checkpoint.
    rows = [row for row in directory.rows if row["round"] < federation.round]
    return Run(federation, rows, directory)


def restored(
    directory: RunDirectory,
    task: Task | None = None,
    data_dir: str | Path | None = None,
    say: Say = lambda text: None,
    round: int | None = None,
) -> tuple[Plan, Federation]:
    """Return a run's plan and its federation as a round's checkpoint has it, or the newest good one."""
    if task is None:
        task = task_of(with_data(directory, data_dir), remembered=data_dir is None)
    plan = Plan.from_config(directory.config, task, rounds=None, by=directory.named_by)
    changes = code_changes(directory, plan)
    if changes:
        say(f"{directory.path}: {changes}; what is measured is of the code as it is now")
    loaded = _loaded(directory, round, say)
    # To look at a run needs no workers; whoever measures starts some.
    federation = plan.federation(InProcessEngine(plan.task, plan.algorithm, plan.settings))
    restore(federation, loaded.round, loaded.tensors, loaded.states)
    if federation.steering is not None:
        federation.steering.take_all(row for row in directory.rows if row["round"] < loaded.round)
    standing = directory.status()
    federation.status, federation.reason = cast(Status, standing["status"]), standing["reason"]
    return plan, federation


def best_round(directory: RunDirectory) -> int:
    """Return after how many rounds a run's best model was; one that keeps none is refused."""
    config = directory.config
    settings = build(Settings, config["settings"])
    if not settings.keep_best:
        raise ConfigError(f"{directory.path} keeps no best model; train with keep_best (--keep-best)")
    metrics = {name: Shown(**shown) if shown else None for name, shown in (config.get("metrics") or {}).items()}
    steering = Steering(settings, HistoryColumns(config.get("test_sets") or [TEST], metrics, is_complete=False))
    steering.take_all(directory.rows)
    if steering.best is None:
        raise CheckpointError(f"{directory.path} has not been evaluated yet, so there is no best model")
    return steering.best.round + 1


def _loaded(directory: RunDirectory, round: int | None, say: Say) -> Loaded:
    if round is None:
        return directory.checkpoints.load_newest(say, directory.check_config_mark)
    return directory.checkpoints.load(round, directory.check_config_mark)


def open_run(path: Path, trust: bool = False, accept_changed_data: bool = False) -> RunDirectory:
    """Open a run directory; where a folder is a comparison's instead, say which runs it holds.

    With `trust` the code that the run names may be imported, wherever it comes from.
    """
    if not is_run(path):
        found = [file.parent for file in path.glob("*/*/config.json") if is_run(file.parent)]
        runs = sorted(str(run.relative_to(path)) for run in found)
        if runs:
            raise ConfigError(f"{path} is not a run directory; name one of the runs in it: {listed(runs)}")
    return RunDirectory.open(path, trust, accept_changed_data)


def with_data(directory: RunDirectory, data_dir: str | Path | None) -> RunDirectory:
    """Return the run as if its data lay elsewhere."""
    if data_dir is None:
        return directory
    recipe = directory.config["task"]
    if recipe["kind"] != "catalogue":
        raise ConfigError(f"data_dir: the data of {directory.path} do not come from a data directory")
    return directory.with_config(task=moved(recipe, data_dir))


def moved(recipe: dict[str, Any], data_dir: str | Path) -> dict[str, Any]:
    """Return the recipe of a task whose data lie in another data directory.

    Files and folders of one's own that are no longer where they were are looked for there under their names.
    """
    if not str(data_dir):  # back to where data sets lie by default
        return recipe | {"data_dir": None}
    place = Path(data_dir).expanduser().absolute()
    options = {name: _moved_paths(recipe.get(name, {}), place) for name in ("data_options", "partition")}
    return recipe | {"data_dir": str(place)} | options


def _moved_paths(options: dict[str, Any], place: Path) -> dict[str, Any]:
    """Return options with the paths that are gone, but have a namesake in the data directory, leading there."""
    return {name: _moved_path(value, place) for name, value in options.items()}


def _moved_path(value: Any, place: Path) -> Any:
    # Only absolute paths: another option's word may happen to be the name of a file.
    if not isinstance(value, str) or not value.startswith("/") or Path(value).exists():
        return value
    namesake = place / Path(value).name
    return str(namesake) if namesake.exists() else value
