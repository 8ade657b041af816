"""Models of transformers as tasks: what is read, what is learnt, exactness, Hessians, `--model hf:FOLDER`."""

from __future__ import annotations

import csv
import json
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import Tensor

import flatfed as ff
from cli.command import flatfed, refused
from flatfed.flatness import products
from flatfed.hub_models import hub_libraries as libraries
from hugging_face.tiny import KINDS, TEXTS, bert, gpt2, rows, t5, tokenizer, vit, words, written

SMALL: dict[str, Any] = {"rounds": 2, "sampling": 2, "lr": 0.1, "batch_size": 2, "workers": 0}


def task(kind: str = "bert", **changes: Any) -> ff.Task:
    make, source = KINDS[kind]
    clients = [source(0), source(1), source(3)]
    return ff.hugging_face(make(), tokenizer(), clients=clients, test=source(2), **changes)


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_trains_to_the_same_bits_on_workers_and_resumed(kind: str, tmp_path: Path) -> None:
    problem = task(kind)
    run = ff.train(problem, "fedsam", **SMALL)
    assert run.history[-1]["train_loss"] > 0 and run.history[-1]["test_accuracy"] is not None
    ff.train(problem, "fedsam", **{**SMALL, "rounds": 1}, out=tmp_path / "run")
    resumed = ff.resume(tmp_path / "run", rounds=2, task=problem)
    assert torch.equal(resumed.vector, run.vector)
    if kind in ("bert", "t5"):  # starting processes takes seconds
        assert torch.equal(ff.train(problem, "fedsam", **{**SMALL, "workers": 2}).vector, run.vector)


def test_dropout_is_keyed() -> None:
    problem = ff.hugging_face(bert(dropout=0.5), tokenizer(), clients=[rows(), rows(1)])
    runs = [ff.train(problem, "fedavg", **SMALL, seed=seed) for seed in (0, 0, 1)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    assert not torch.equal(runs[0].vector, runs[2].vector)


# --- what is read ---------------------------------------------------------------------------------------------


class Table:
    """Columns by name, as tables of the library datasets have them."""

    def __init__(self, examples: list[dict[str, Any]]) -> None:
        self.examples, self.column_names = examples, list(examples[0])

    def __getitem__(self, name: str) -> list[Any]:
        return [example[name] for example in self.examples]

    def __len__(self) -> int:
        return len(self.examples)


def encoded(examples: list[dict[str, Any]]) -> dict[str, list[Any]]:
    ids = tokenizer()([example["text"] for example in examples])["input_ids"]
    return {"input_ids": ids, "labels": [example["label"] for example in examples]}


SOURCES: dict[str, Any] = {
    "columns": lambda e: {name: [row[name] for row in e] for name in e[0]},
    "table": Table,
    "encoded": encoded,
    "names of classes": lambda e: [{"text": row["text"], "label": f"LABEL_{row['label']}"} for row in e],
    "other names": lambda e: [{"said": row["text"], "labels": row["label"]} for row in e],
}


@pytest.mark.parametrize("name", SOURCES)
def test_every_source_of_the_same_texts_gives_the_same_bits(name: str) -> None:
    made = [ff.hugging_face(bert(), tokenizer(), clients=[source(rows())]) for source in (list, SOURCES[name])]
    runs = [ff.train(problem, "fedavg", **{**SMALL, "sampling": 1}) for problem in made]
    assert torch.equal(runs[0].vector, runs[1].vector)


def test_a_batch_is_filled_up_and_masked() -> None:
    inputs, targets = task().examples(0).batch(torch.tensor([0, 1]))
    longest, shorter = (len(text.split()) + 2 for text in TEXTS[:2])
    assert inputs["attention_mask"].sum(dim=1).tolist() == [longest, shorter]
    assert inputs["input_ids"].shape == (2, longest) and not inputs["input_ids"][1, shorter:].any()
    assert targets.tolist() == [0, 1]


def test_the_label_of_a_word_is_at_its_first_token() -> None:
    problem = ff.hugging_face(bert("TokenClassification"), tokenizer(), clients=[words()])
    _, targets = problem.examples(0).batch(torch.tensor([1]))
    assert targets.tolist() == [[-100, *words()[1]["tags"], -100]]


def test_a_decoder_is_given_its_targets_moved_by_one() -> None:
    model = t5()
    problem = ff.hugging_face(model, tokenizer(), clients=[written()])
    inputs, targets = problem.examples(0).batch(torch.tensor([0, 1]))
    expected = model.prepare_decoder_input_ids_from_labels(targets)
    assert torch.equal(inputs["decoder_input_ids"], expected)
    own = model(input_ids=inputs["input_ids"], attention_mask=inputs["attention_mask"], labels=targets).loss
    assert torch.equal(problem.criterion(model(**inputs), targets), own)


def test_a_data_set_is_divided_by_number_column_or_indices() -> None:
    examples = [{**row, "who": "ab"[i % 2]} for i, row in enumerate(rows(count=6))]
    parts = [[0, 2, 4], [1, 3, 5]]
    by_column = ff.hugging_face(bert(), tokenizer(), examples, clients="who")
    by_indices = ff.hugging_face(bert(), tokenizer(), examples, clients=parts)
    runs = [ff.train(problem, "fedavg", **SMALL) for problem in (by_column, by_indices)]
    assert torch.equal(runs[0].vector, runs[1].vector)
    assert ff.hugging_face(bert(), tokenizer(), rows(count=6), clients=3).population == 3


def test_the_class_of_a_text_is_no_target_of_a_language_model() -> None:
    problem = ff.hugging_face(gpt2(), tokenizer(), clients=[rows()])
    inputs, targets = problem.examples(0).batch(torch.tensor([0, 1]))
    assert torch.equal(targets, inputs["input_ids"].masked_fill(inputs["attention_mask"] == 0, -100))


def test_a_head_of_one_number_is_a_regression() -> None:
    examples = [{"text": text, "label": float(len(text))} for text in TEXTS]
    problem = ff.hugging_face(bert(num_labels=1), tokenizer(), clients=[examples], test=examples)
    run = ff.train(problem, "fedavg", **{**SMALL, "sampling": 1})
    assert run.history[-1]["test_mse"] == pytest.approx(run.history[-1]["test_loss"])


MISTAKES: dict[str, tuple[dict[str, Any], str]] = {
    "name": ({"model": "bert-base-uncased"}, "download=True"),
    "folder": ({"model": "/nowhere/model"}, "there is no folder"),
    "tokenizer": ({"tokenizer": None}, "need a tokenizer"),
    "kind": ({"task": "causal-ml"}, "causal-lm"),
    "label": ({"label": "kind"}, "there are the columns text, label"),
    "text": ({"text": "said"}, "there are the columns text, label"),
    "class": ({"clients": [[{"text": "cat", "label": "cats"}]]}, "knows no class 'cats'"),
    "no clients": ({"clients": None}, "rows of each client"),
}


@pytest.mark.parametrize("name", MISTAKES)
def test_mistakes_are_sentences(name: str) -> None:
    changes, sentence = MISTAKES[name]
    given = {"model": bert(), "tokenizer": tokenizer(), "clients": [rows()]} | changes
    with pytest.raises(ff.ConfigError, match=sentence):
        ff.hugging_face(**given)


@pytest.mark.parametrize("library", [libraries.transformers, libraries.peft])
def test_without_the_libraries_it_is_said_how_to_get_them(library: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, library.__name__, None)  # as if it were not installed
    with pytest.raises(ff.ConfigError, match=r"pip install 'flatfed\[transformers\]'"):
        library()


# --- Hessians -------------------------------------------------------------------------------------------------


def dense_hessian(problem: ff.Task, w: Tensor) -> Tensor:
    """Return the Hessian of the mean loss over all targets, each text alone and so without anything that fills up."""
    model, layout = problem.fresh_model(torch.float64).eval(), problem.layout()
    is_causal = "LMHead" in type(model).__name__
    holders = range(problem.population)
    batches = [problem.examples(k).batch(torch.tensor([i])) for k in holders for i in range(problem.samples(k))]

    def loss(w: Tensor) -> Tensor:
        values = {piece.name: piece.view(w) for piece in layout.parameters}
        total, count = w.new_zeros(()), 0
        for inputs, targets in batches:
            taken = {name: entry.double() if entry.is_floating_point() else entry for name, entry in inputs.items()}
            scores = torch.func.functional_call(model, values, (), taken).logits
            if is_causal:
                scores, targets = scores[0, :-1], targets[0, 1:]
            total, count = total + F.cross_entropy(scores, targets, reduction="sum"), count + len(targets)
        return total / count

    with products.plain_attention():
        return torch.autograd.functional.hessian(loss, w, vectorize=True)  # type: ignore[no-any-return]


@pytest.mark.parametrize("kind", ["bert", "gpt2", "vit"])
def test_the_largest_eigenvalue_is_that_of_the_dense_hessian(kind: str) -> None:
    make, source = KINDS[kind]
    problem = ff.hugging_face(make().double(), tokenizer(), clients=[source(0), source(2)])
    with ff.laboratory(problem, workers=0) as lab:
        measured = lab.measure("lambda_max(tolerance=1e-6)")["lambda_max"].numbers["lambda_max"]
        hessian = dense_hessian(problem, lab.surface.w)
    assert measured == pytest.approx(float(torch.linalg.eigvalsh(hessian)[-1]), rel=1e-6)


# --- the command line -----------------------------------------------------------------------------------------


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return written_model(tmp_path, bert())


@pytest.fixture
def texts(tmp_path: Path) -> Path:
    return written_texts(tmp_path)


def written_model(home: Path, model: Any) -> Path:
    model.save_pretrained(home / "bert")
    tokenizer().save_pretrained(home / "bert")
    return home / "bert"


def written_texts(home: Path) -> Path:
    with (home / "texts.csv").open("w", newline="") as file:
        csv.writer(file).writerows([(row["label"], row["text"]) for row in rows(count=18)])
    return home / "texts.csv"


def arguments(texts: Path, folder: Path, out: Path, *more: Any) -> list[Any]:
    data = ["--set", f"data.path={texts}", "--set", "data.length=10", "--partition", "iid", "--clients", 2]
    return ["run", "texts", "fedsam", *data, "--model", f"hf:{folder}", "--rounds", 1, "--per-round", 2, "--lr", 0.1,
            "--workers", 0, "--out", out, *more]  # fmt: skip


def test_a_folder_on_the_command_line(folder: Path, texts: Path, tmp_path: Path) -> None:
    done = flatfed(*arguments(texts, folder, tmp_path / "run"))
    assert done.code == 0, done.err
    config = next((tmp_path / "run").rglob("config.json"))
    record = json.loads(config.read_text())["task"]
    assert record["model"] == f"hf:{folder}" and len(record["model_sha256"]) == 64
    assert record["data_options"]["tokenizer"] == str(folder)
    assert flatfed("resume", config.parent, "--rounds", 2).code == 0
    assert flatfed(*arguments(texts, folder, tmp_path / "straight", "--rounds", 2)).code == 0
    again = ff.load_run(next((tmp_path / "straight").rglob("config.json")).parent)
    assert torch.equal(ff.load_run(config.parent).vector, again.vector)
    for place in (config.parent, folder):
        refused(flatfed("export", config.parent, "--format", "hf", "--out", place), "is there already")
    for _ in range(2):
        exported = flatfed("export", config.parent, "--format", "hf")
        assert (exported.code, exported.err) == (0, "")
    assert flatfed("show", config.parent).code == 0
    bert(hidden_size=4).save_pretrained(folder)
    refused(flatfed("resume", config.parent, "--rounds", 3), "the folder of its model")


def exported_folder(run: Path, out: Path) -> str:
    """Export a run, and return its card."""
    exported = flatfed("export", next(run.rglob("config.json")).parent, "--format", "hf", "--out", out)
    assert exported.code == 0, exported.err
    return (out / "README.md").read_text()


def test_the_tokenizer_goes_out_with_the_model(folder: Path, texts: Path, tmp_path: Path) -> None:
    from transformers import AutoTokenizer

    (folder / "tokenization_own.py").write_text("raise SystemExit")
    assert flatfed(*arguments(texts, folder, tmp_path / "run")).code == 0
    card = exported_folder(tmp_path / "run", tmp_path / "out")
    again = AutoTokenizer.from_pretrained(tmp_path / "out", local_files_only=True)
    assert [again(text)["input_ids"] for text in TEXTS] == [tokenizer()(text)["input_ids"] for text in TEXTS]
    assert '- Reads inputs: tokenizer (`AutoTokenizer.from_pretrained("FOLDER")`), as in the folder' in card
    assert not list((tmp_path / "out").glob("*.py"))
    # Texts that another tokenizer read go with that one.
    tokenizer().save_pretrained(tmp_path / "reader")
    (tmp_path / "reader/added_tokens.json").write_text("{}")
    named = ("--set", f"data.tokenizer={tmp_path / 'reader'}")
    assert flatfed(*arguments(texts, folder, tmp_path / "another", *named)).code == 0
    exported_folder(tmp_path / "another", tmp_path / "other")
    assert (tmp_path / "other/added_tokens.json").exists() and not (tmp_path / "out/added_tokens.json").exists()


def test_texts_are_read_by_the_tokenizer_of_the_folder(folder: Path, texts: Path) -> None:
    from flatfed.experiments.tasks.recipe import TaskRecipe

    options = {"path": str(texts), "length": 10, "tokenizer": str(folder)}
    pool = TaskRecipe("texts", data_options=options, model=f"hf:{folder}").pool()
    tokens, _ = pool.train.batch(torch.tensor([0]))
    known = {tuple(tokenizer()(text)["input_ids"]) for text in TEXTS}
    assert tuple(number for number in tokens[0].tolist() if number >= 0) in known


def test_a_name_is_not_fetched_unless_asked_for(texts: Path, tmp_path: Path) -> None:
    refused(flatfed(*arguments(texts, Path("bert-base-uncased"), tmp_path / "run")), "model.download=true")


def test_images_of_another_size_and_one_channel(tmp_path: Path) -> None:
    vit(size=8, classes=2).save_pretrained(tmp_path / "vit")
    words = ["run", "synthetic", "fedavg", "--set", "data.like=mnist", "--set", "data.train=40", "--clients", 2]
    words += ["--model", f"hf:{tmp_path / 'vit'}", "--rounds", 1, "--per-round", 1, "--lr", 0.1, "--workers", 0]
    done = flatfed(*words, "--out", tmp_path / "run")
    assert done.code == 0, done.err
    (tmp_path / "vit/preprocessor_config.json").write_text('{"image_processor_type": "ViTImageProcessor"}')
    (tmp_path / "run").rename(tmp_path / "before")  # its folder is another one now
    assert flatfed(*words, "--out", tmp_path / "run").code == 0
    card = exported_folder(tmp_path / "run", tmp_path / "out")
    assert "- Reads inputs: image processor (" in card
    assert (tmp_path / "out/preprocessor_config.json").read_bytes() == (
        tmp_path / "vit/preprocessor_config.json"
    ).read_bytes()
