"""A run's model as files of other programs: the same names, tensors and outputs; and the card beside it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import onnxruntime
import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor, nn

import flatfed as ff
from experiments.networks import CLASSES, NAMES, SCALED, image_task, images, normed_cnn, trained
from flatfed.core.errors import ConfigError
from flatfed.core.model.layout import LOCAL_PARAMETERS


def flat(state: dict[str, Tensor], model: nn.Module) -> Tensor:
    """Return the parameters of a state_dict, flat, in the order of the model."""
    return torch.cat([state[name].reshape(-1) for name, _ in model.named_parameters()])


def read(file: Path) -> dict[str, Tensor]:
    state: dict[str, Tensor] = load_file(file) if file.suffix == ".safetensors" else torch.load(file, weights_only=True)
    return state


# --- the module -----------------------------------------------------------------------------------------------


def test_the_model_comes_back_in_inference_mode_and_is_the_one_that_was_tested() -> None:
    run = trained(image_task())
    model = run.model()
    assert not any(module.training for module in model.modules())
    inputs, targets = images(21, 9)
    with torch.no_grad():
        right = (model(SCALED(inputs)).argmax(1) == targets).double().mean()
    assert float(right) == run.history[-1]["test_accuracy"]
    assert torch.equal(flat(model.state_dict(), model), run.vector)


def test_with_an_average_there_are_two_models() -> None:
    run = trained(image_task(), "fedavg+swa(start=0.0,cycle=1)")
    averaged, last = run.model(), run.model("global")
    assert torch.equal(flat(averaged.state_dict(), averaged), run.eval_vector)
    assert torch.equal(flat(last.state_dict(), last), run.vector)
    assert not torch.equal(run.vector, run.eval_vector)
    with pytest.raises(ConfigError, match="'evaluated' or 'global', not 'best'"):
        run.model("best")  # type: ignore[arg-type]


def test_a_clients_own_layers_are_in_its_model(tmp_path: Path) -> None:
    run = trained(image_task(local="bn"))
    with pytest.raises(ConfigError, match=r"stay on the clients \(1\.weight"):
        run.export(tmp_path)
    client = run.history[-1]["clients"][0]
    file, card = run.export(tmp_path, client=client)
    state = read(file)
    assert torch.equal(torch.cat([state["1.weight"], state["1.bias"]]), run.client_state(client)[LOCAL_PARAMETERS])
    assert int(state["1.num_batches_tracked"]) > 0
    assert f"client {client}" in card.read_text()
    for wrong in (3, -1):
        with pytest.raises(ConfigError, match=f"there is no client {wrong}; they are 0 to 2"):
            run.export(tmp_path, client=wrong)
    with pytest.raises(ConfigError, match="leave it out"):
        trained(image_task()).export(tmp_path, client=0)


# --- parameters and buffers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["model.safetensors", "model.pt", "model.pth"])
def test_a_file_holds_the_state_dict(tmp_path: Path, name: str) -> None:
    run = trained(image_task(), dtype=torch.float64)
    files = run.export(tmp_path / name)
    assert files == [tmp_path / name, tmp_path / "model.md"]
    state, again = read(files[0]), normed_cnn().double()
    again.load_state_dict(state)
    assert torch.equal(flat(state, again), run.vector)
    assert all(tensor.is_contiguous() for tensor in state.values())
    expected = run.model().state_dict()
    assert all(torch.equal(state[name], expected[name]) for name in expected)
    assert not torch.equal(state["1.running_mean"], torch.zeros(4))


def test_a_header_says_where_it_comes_from(tmp_path: Path) -> None:
    file, _ = trained(image_task()).export(tmp_path)
    with safe_open(file, "pt") as opened:
        header = opened.metadata()
    assert json.loads(header["class_names"]) == list(NAMES)
    assert (header["method"], header["round"], header["weights"]) == ("fedavg", "3", "evaluated")


class Tied(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = nn.Linear(36, 36), nn.Linear(36, 36)
        self.second.weight = self.first.weight
        self.last = nn.Linear(36, CLASSES)

    def forward(self, inputs: Tensor) -> Tensor:
        return self.last(self.second(self.first(inputs.flatten(1)).relu()))  # type: ignore[no-any-return]


@pytest.mark.parametrize("format", ["safetensors", "torch"])
def test_tied_parameters_are_there_under_both_names(tmp_path: Path, format: str) -> None:
    run = trained(image_task(Tied()))
    state = read(run.export(tmp_path, format)[0])
    assert torch.equal(state["first.weight"], state["second.weight"])
    Tied().load_state_dict(state)


def test_another_type(tmp_path: Path) -> None:
    file, card = trained(image_task()).export(tmp_path, dtype="float16")
    state = read(file)
    assert state["0.weight"].dtype == torch.float16 and state["1.num_batches_tracked"].dtype == torch.int64
    assert "trained and measured in float32" in card.read_text()


def test_what_is_asked_for_must_fit(tmp_path: Path) -> None:
    run = trained(image_task(), rounds=1)
    wrong: list[tuple[dict[str, Any], str]] = [
        ({"format": "keras"}, "format: unknown format 'keras'"),
        ({"format": "onnx"}, "has the ending of torch, and format is onnx"),
        ({"dtype": "int8"}, "dtype: unknown type 'int8'"),
        ({"raw_inputs": True}, "raw_inputs is for onnx"),
    ]
    for options, words in wrong:
        with pytest.raises(ConfigError, match=words):
            run.export(tmp_path / "m.pt", **options)
    assert list(tmp_path.iterdir()) == []


# --- ONNX -------------------------------------------------------------------------------------------------------


def test_a_graph_computes_what_the_model_does_on_raw_bytes_too(tmp_path: Path) -> None:
    run, said = trained(image_task()), list[str]()
    file, _ = run.export(tmp_path / "m.onnx", raw_inputs=True, say=said.append)
    session = onnxruntime.InferenceSession(file, providers=["CPUExecutionProvider"])
    inputs, model = images(7, 5)[0], run.model()
    for count in (1, 7):
        (outputs,) = session.run(None, {"input": inputs[:count].numpy()})
        with torch.no_grad():
            expected = model(SCALED(inputs[:count]))
        assert float((torch.from_numpy(outputs) - expected).abs().max()) < 1e-5
    facts = session.get_modelmeta().custom_metadata_map
    assert json.loads(facts["class_names"]) == list(NAMES) and facts["preparation"] == "in the graph"
    assert "differ from PyTorch's by" in said[0]


class OtherwiseExported(nn.Linear):
    """Computes something else in a graph."""

    def forward(self, inputs: Tensor) -> Tensor:
        outputs = super().forward(inputs.flatten(1))
        return outputs + 1e-3 if torch.compiler.is_exporting() else outputs


def test_a_graph_that_computes_something_else_is_not_written(tmp_path: Path) -> None:
    run = trained(image_task(OtherwiseExported(36, CLASSES)), rounds=1)
    with pytest.raises(ConfigError, match=r"outputs differ by 0\.001, and 1e-05 is allowed; nothing is written"):
        run.export(tmp_path / "m.onnx")
    assert list(tmp_path.iterdir()) == []


# --- Hugging Face -----------------------------------------------------------------------------------------------


class Logits(nn.Module):
    """A model of Hugging Face whose outputs are a tensor."""

    def __init__(self, network: nn.Module, more: nn.Module | None = None) -> None:
        super().__init__()
        self.network, self.more = network, more

    def forward(self, words: Tensor) -> Tensor:
        return self.network(input_ids=words).logits  # type: ignore[no-any-return]


def test_a_folder_loads_with_from_pretrained(tmp_path: Path) -> None:
    from transformers import BertConfig, BertForSequenceClassification

    size = {"vocab_size": 11, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 2}
    config = BertConfig(**size, intermediate_size=8, num_labels=CLASSES)
    words = torch.arange(24).view(6, 4) % 11, torch.arange(6) % CLASSES
    network = BertForSequenceClassification(config)
    run = trained(ff.Task(Logits(network), [words, words], test=words, class_names=NAMES), rounds=1)
    files = run.export(tmp_path / "folder", "hf")
    assert {"config.json", "model.safetensors", "README.md"} <= {file.name for file in files}
    again = BertForSequenceClassification.from_pretrained(tmp_path / "folder").eval()
    with torch.no_grad():
        assert torch.equal(again(input_ids=words[0]).logits, run.model()(words[0]))
    assert again.config.id2label == dict(enumerate(NAMES))
    card = (tmp_path / "folder/README.md").read_text()
    assert "BertForSequenceClassification.from_pretrained" in card
    assert "neither a tokenizer nor an image processor is in the folder" in card
    beside = trained(ff.Task(Logits(network, nn.Linear(2, 2)), [words, words]), rounds=1, evaluate_every=9)
    with pytest.raises(ConfigError, match=r"leave out 2 parameters .* such as more\.weight"):
        beside.export(tmp_path / "other", "hf")


def test_another_model_has_no_such_folder(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="Sequential is no model of Hugging Face"):
        trained(image_task(), rounds=1).export(tmp_path / "folder", "hf")
    assert list(tmp_path.iterdir()) == []


# --- the card ---------------------------------------------------------------------------------------------------

SECTIONS = (
    *("The model", "How to load it", "Data", "Method", "Settings", "Accuracy", "By class"),
    *("Spread over clients", "Flatness", "Limits", "How to cite"),
)


def section(text: str, title: str) -> str:
    return text.partition(f"## {title}\n\n")[2].partition("\n\n## ")[0]


def test_a_card_says_what_is_known_and_what_was_not_measured(tmp_path: Path) -> None:
    run = trained(image_task(), "fedavg+sam")
    card = run.export(tmp_path)[1].read_text()
    assert [line.removeprefix("## ") for line in card.splitlines() if line.startswith("## ")] == list(SECTIONS)
    accuracy = [row["test_accuracy"] for row in run.history]
    cells = section(card, "Accuracy").splitlines()[2].split(" | ")
    assert cells[1] == f"{100 * accuracy[-1]:.2f}" and cells[3] == f"{100 * max(accuracy):.2f}"
    assert section(card, "Flatness") == section(card, "Spread over clients") == "Not measured."
    assert "| ant |" in section(card, "By class") and "sam (rho=0.05)" in section(card, "Method")
    cited = section(card, "How to cite")
    assert all(words in cited for words in ("flatfed", "AISTATS 2017", "ICLR 2021"))
    assert "One run with seed 1" in section(card, "Limits")


def test_a_card_without_tests_invents_none(tmp_path: Path) -> None:
    task = ff.Task(nn.Linear(2, 2), [(torch.eye(2), torch.arange(2))] * 2)
    card = trained(task, rounds=1).export(tmp_path)[1].read_text()
    assert section(card, "Accuracy") == section(card, "By class") == "Not measured."
    assert "There was no test set" in section(card, "Limits")


def test_a_card_tells_training_examples_from_those_held_out(tmp_path: Path) -> None:
    held_out = "- Training examples: 27 trained on, 9 held out for validation; classes: 3"
    for out in (None, tmp_path / "run"):
        run = trained(image_task(), out=out, rounds=1, validation=0.25)
        data = section(run.export(tmp_path / f"card-{out is None}")[1].read_text(), "Data")
        assert held_out in data and "- Test examples: test 21\n" in data
    apart = trained(image_task(), rounds=1, validation=images(5, 4)).export(tmp_path / "apart")[1].read_text()
    assert "- Training examples: 36; classes: 3" in apart and "- Test examples: test 21, validation 5\n" in apart


def test_a_card_counts_what_a_recipe_holds_out(tmp_path: Path) -> None:
    task = ff.task("digits", clients=10, validation=0.2)
    run = trained(task, out=tmp_path / "run", rounds=1)
    data = section(run.export(tmp_path / "card")[1].read_text(), "Data")
    count = sum(task.samples(client) for client in range(10))
    assert f"{count:,} trained on, {len(task.test_sets['validation'])} held out for validation" in data
