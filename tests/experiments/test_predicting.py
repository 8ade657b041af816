"""New inputs are read as a run's data were: over the test set, predictions come to the accuracy that was recorded."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from torch import nn

import flatfed as ff
from experiments.networks import image_task, images, normed_cnn, trained
from flatfed.core.errors import ConfigError
from flatfed.data.catalogue import load
from flatfed.experiments.tasks.recipe import TaskRecipe


def of_recipe(recipe: TaskRecipe, **settings: object) -> ff.Run:
    return trained(recipe.build(), lr=0.1, **settings)


def share(predicted: list[str], actual: list[str]) -> float:
    """Return how many are right, as an accuracy is computed."""
    assert len(predicted) == len(actual)
    return sum(a == b for a, b in zip(predicted, actual, strict=True)) / len(actual)


# --- images -----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def digits() -> ff.Run:
    recipe = TaskRecipe("digits", clients=4, model="logreg", partition={"id": "iid"})
    return of_recipe(recipe, rounds=4)


def test_images_of_a_published_test_set(digits: ff.Run, tmp_path: Path) -> None:
    pool = load("digits")
    inputs, targets = pool.test.batch(torch.arange(len(pool.test)))
    for number, pixels in enumerate(inputs[:, 0]):
        grey = (pixels.double() * 255 / 16).round().to(torch.uint8)
        Image.fromarray(grey.numpy()).save(tmp_path / f"{number:03d}.png")
    predictions = digits.predict(tmp_path)
    assert [Path(one.name).name for one in predictions[:2]] == ["000.png", "001.png"]
    names = [f"digit {target}" for target in targets.tolist()]
    assert share([one.label for one in predictions], names) == digits.history[-1]["test_accuracy"] > 0.3
    with torch.no_grad():
        expected = digits.model()(digits.task.prepare(inputs[:5])).softmax(1)  # type: ignore[misc]
    actual = torch.tensor([one.outputs for one in predictions[:5]])
    assert torch.allclose(actual, expected, atol=1e-6)


def test_an_image_of_another_size_says_what_can_be_done(digits: ff.Run, tmp_path: Path) -> None:
    Image.new("RGB", (20, 30)).save(tmp_path / "photo.png")
    with pytest.raises(ConfigError, match="20 x 30 pixels, the data set's images 8 x 8; resize cuts the middle square"):
        digits.predict(tmp_path / "photo.png")
    assert len(digits.predict(tmp_path / "photo.png", resize=True)) == 1
    for name, words in {"none.png": "is missing", "empty": "holds no image"}.items():
        (tmp_path / "empty").mkdir(exist_ok=True)
        with pytest.raises(ConfigError, match=words):
            digits.predict(tmp_path / name)


def test_images_of_a_folder_are_fitted_as_they_were_in_training(tmp_path: Path) -> None:
    for part, count in {"train": 6, "test": 3}.items():
        for label, brightness in {"dark": 40, "light": 200}.items():
            folder = tmp_path / part / label
            folder.mkdir(parents=True)
            for number in range(count):
                Image.new("RGB", (9 + number, 14), (brightness + 9 * number,) * 3).save(folder / f"{number}.png")
    options = {"path": str(tmp_path), "size": 4}
    recipe = TaskRecipe("image-folder", clients=2, model="logreg", partition={"id": "iid"}, data_options=options)
    run = of_recipe(recipe)
    predictions = run.predict(tmp_path / "test")
    actual = [Path(one.name).parent.name for one in predictions]
    assert share([one.label for one in predictions], actual) == run.history[-1]["test_accuracy"]


# --- texts ------------------------------------------------------------------------------------------------------


def test_texts_by_row_by_line_and_by_file(tmp_path: Path) -> None:
    topics = {"sport": "ball goal team match", "food": "bread soup rice bean"}
    rows = [
        (label, " ".join(np.roll(words.split(), turn)[: 2 + turn % 3]))
        for label, words in topics.items()
        for turn in range(8)
    ]
    train, test = [f"{label},{text}" for label, text in rows[::2]], rows[1::2]
    (tmp_path / "train.csv").write_text("label,text\n" + "\n".join(train))
    (tmp_path / "test.csv").write_text("label,text\n" + "\n".join(f"{label},{text}" for label, text in test))
    options = {"path": str(tmp_path / "train.csv"), "test": str(tmp_path / "test.csv"), "label": "label"}
    options |= {"text": "text"}
    recipe = TaskRecipe("texts", clients=2, partition={"id": "iid"}, data_options=options | {"length": 6})
    run = of_recipe(recipe, rounds=2)
    by_row = run.predict(tmp_path / "test.csv")
    assert [one.name for one in by_row[:1]] == [f"{tmp_path / 'test.csv'}, line 2"]
    actual = [label for label, _ in test]
    assert share([one.label for one in by_row], actual) == run.history[-1]["test_accuracy"]
    (tmp_path / "lines.txt").write_text("\n\n".join(text for _, text in test))
    by_line = run.predict(tmp_path / "lines.txt")
    assert [one.outputs for one in by_line] == [one.outputs for one in by_row]
    (tmp_path / "one.txt").write_text(test[0][1])
    assert run.predict(tmp_path / "one.txt", whole=True)[0].label == by_row[0].label
    (tmp_path / "other.csv").write_text("body\nball goal\n")
    with pytest.raises(ConfigError, match=r"no column 'text' \(body\); name the one of texts with column"):
        run.predict(tmp_path / "other.csv")
    assert len(run.predict(tmp_path / "other.csv", column="body")) == 1
    (tmp_path / "empty.txt").write_text(" \n")
    with pytest.raises(ConfigError, match="holds no text"):
        run.predict(tmp_path / "empty.txt")


# --- rows -------------------------------------------------------------------------------------------------------


def test_rows_of_a_table_with_its_scaling(tmp_path: Path) -> None:
    generator = np.random.default_rng(0)
    lines, tested = ["age,dose,label,split"], list[str]()
    for number in range(40):
        label = number % 2
        age, dose = 50 + 20 * label + generator.normal(), "" if number % 9 == 0 else 5 - label
        split = "test" if number % 4 > 1 else "train"
        lines.append(f"{age:.3f},{dose},{('well', 'ill')[label]},{split}")
        if split == "test":
            tested.append(f"{dose},{age:.3f}")  # in another order, and without a label
    (tmp_path / "table.csv").write_text("\n".join(lines))
    (tmp_path / "scaling.csv").write_text("column,mean,std\nage,60,10\ndose,4.5,0.5\n")
    (tmp_path / "new.csv").write_text("\n".join(["dose,age", *tested]))
    options = {"path": str(tmp_path / "table.csv"), "scaling": str(tmp_path / "scaling.csv"), "missing": "mean"}
    run = of_recipe(TaskRecipe("table", clients=2, partition={"id": "iid"}, model="logreg", data_options=options))
    predictions = run.predict(tmp_path / "new.csv")
    actual = ["well", "ill"] * 10
    assert share([one.label for one in predictions], actual) == run.history[-1]["test_accuracy"]
    assert predictions[0].name.endswith("new.csv, line 2")
    (tmp_path / "less.csv").write_text("age\n50\n")
    with pytest.raises(ConfigError, match=r"less\.csv, line 1: no column 'dose'"):
        run.predict(tmp_path / "less.csv")


@pytest.mark.parametrize("target", ["sick", "dose"])
def test_rows_of_a_table_with_a_target_of_its_own(target: str, tmp_path: Path) -> None:
    lines, tested, actual = ["age;ward;sick;dose;split"], list[str](), list[dict[str, str]]()
    for number in range(40):
        age, ward, split = 30 + number, "abc"[number % 3], "test" if number % 4 > 1 else "train"
        row = {"sick": "yes" if number % 2 else "no", "dose": f"{2.5 * age + number % 3 + 0.25}".replace(".", ",")}
        lines.append(f"{age};{ward};{row['sick']};{row['dose']};{split}")
        if split == "test":
            tested.append(f"{ward};{age}")
            actual.append(row)
    (tmp_path / "table.csv").write_text("\n".join(lines))
    (tmp_path / "new.csv").write_text("\n".join(["ward;age", *tested]))
    options = {"path": str(tmp_path / "table.csv"), "target": target, "columns": "age, ward"}
    run = of_recipe(TaskRecipe("table", clients=2, partition={"id": "iid"}, model="logreg", data_options=options))
    predictions = run.predict(tmp_path / "new.csv")
    if target == "sick":
        assert (
            share([one.label for one in predictions], [row["sick"] for row in actual])
            == run.history[-1]["test_accuracy"]
        )
    else:
        errors = [
            abs(one.outputs[0] - float(row["dose"].replace(",", ".")))
            for one, row in zip(predictions, actual, strict=True)
        ]
        assert sum(errors) / len(errors) == pytest.approx(run.history[-1]["test_mae"], rel=1e-5)


# --- tasks from Python --------------------------------------------------------------------------------------------


def test_arrays_are_inputs_of_any_task(tmp_path: Path) -> None:
    run = trained(image_task())
    inputs, targets = images(21, 9)
    np.save(tmp_path / "test.npy", inputs.numpy())
    predictions = run.predict(tmp_path / "test.npy")
    right = [one.number == target for one, target in zip(predictions, targets.tolist(), strict=True)]
    assert sum(right) / 21 == run.history[-1]["test_accuracy"]
    assert predictions[0].probability == max(predictions[0].outputs)
    np.save(tmp_path / "flat.npy", inputs.flatten(1).numpy())
    with pytest.raises(ConfigError, match="must be an array of N x 1 x 6 x 6 numbers"):
        run.predict(tmp_path / "flat.npy")
    with pytest.raises(ConfigError, match="nothing is known of how files become inputs of 'spots'"):
        run.predict(tmp_path / "photo.png")


def test_a_quantity_has_no_classes(tmp_path: Path) -> None:
    data = torch.arange(8.0).view(4, 2), torch.arange(4.0).view(4, 1)
    task = ff.Task(nn.Linear(2, 1), [data, data], loss=nn.functional.mse_loss)
    run = trained(task, rounds=1, lr=0.01)
    np.save(tmp_path / "x.npy", data[0].numpy())
    with torch.no_grad():
        expected = run.model()(data[0])[:, 0].tolist()
    predictions = run.predict(tmp_path / "x.npy")
    assert [one.outputs for one in predictions] == [(value,) for value in expected]
    assert predictions[0].number is predictions[0].probability is None


def test_statistics_of_the_inputs_themselves_are_said(tmp_path: Path) -> None:
    model = nn.Sequential(nn.Flatten(), nn.Linear(36, 4), nn.BatchNorm1d(4), nn.Linear(4, 3))
    run, said = trained(image_task(model), eval_stats="batch-stats"), list[str]()
    np.save(tmp_path / "some.npy", images(21, 9)[0].numpy())
    predictions = run.predict(tmp_path / "some.npy", say=said.append)
    right = [one.number == number % 3 for number, one in enumerate(predictions)]
    assert sum(right) / 21 == run.history[-1]["test_accuracy"] and "give many at once" in said[0]
    np.save(tmp_path / "one.npy", images(1, 9)[0].numpy())
    with pytest.raises(ConfigError, match="a batch of one example has no statistics"):
        run.predict(tmp_path / "one.npy")


def test_a_model_with_local_layers_needs_a_client(tmp_path: Path) -> None:
    run = trained(image_task(normed_cnn(), local="bn"))
    np.save(tmp_path / "some.npy", images(5, 9)[0].numpy())
    with pytest.raises(ConfigError, match="take the model of one client with client K"):
        run.predict(tmp_path / "some.npy")
    client = run.history[-1]["clients"][0]
    with torch.no_grad():
        expected = run.model(client=client)(run.task.prepare(images(5, 9)[0])).softmax(1)  # type: ignore[misc]
    actual = torch.tensor([one.outputs for one in run.predict(tmp_path / "some.npy", client=client)])
    assert torch.allclose(actual, expected, atol=1e-6)


def test_inputs_of_several_arrays_are_refused(tmp_path: Path) -> None:
    examples = {"input": torch.zeros(4, 2), "labels": torch.tensor([0, 1, 0, 1])}
    task = ff.Task(model=nn.Linear(2, 2), clients=[examples], test=examples)
    run = ff.train(task, "fedavg", rounds=1, sampling=1, lr=0.1, workers=0)
    np.save(tmp_path / "new.npy", np.zeros((1, 2), np.float32))
    with pytest.raises(ConfigError, match="more than one array"):
        run.predict(tmp_path / "new.npy")


def test_arrays_of_bytes_hold_bytes(tmp_path: Path) -> None:
    run = trained(image_task(), rounds=1)
    raw = images(3, 9)[0].numpy()
    file = tmp_path / "new.npy"
    np.save(file, raw)
    expected = [one.outputs for one in run.predict(file)]
    for other in (raw.astype(">f4"), raw.astype(np.uint16)):
        np.save(file, other)
        assert [one.outputs for one in run.predict(file)] == expected
    for wrong in (raw / 255, raw.astype(int) - 300, np.full(raw.shape, np.nan)):
        np.save(file, wrong)
        with pytest.raises(ConfigError, match="are not uint8; give raw inputs"):
            run.predict(file)
    np.save(file, raw[:0])
    with pytest.raises(ConfigError, match="holds no input"):
        run.predict(file)
