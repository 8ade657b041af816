"""MNIST and Fashion-MNIST, from their idx files."""

from __future__ import annotations

from flatfed.data.catalogue import Expected, Moments, source
from flatfed.data.directory import DataDirectory
from flatfed.data.sources.published.idx_images import IdxFile, idx_pool, official_idx
from flatfed.data.storage.pool import Normalise, Pool

MNIST_FOLDER, FASHION_FOLDER = "MNIST/raw", "FashionMNIST/raw"
MNIST = Normalise(mean=(0.1307,), std=(0.3081,))
FASHION_MNIST = Normalise(mean=(0.2860,), std=(0.3530,))
DIGITS = tuple(f"digit {digit}" for digit in range(10))
CLOTHES = (
    *("T-shirt/top", "trouser", "pullover", "dress", "coat"),
    *("sandal", "shirt", "sneaker", "bag", "ankle boot"),
)
EXPECTED_MNIST = Expected(
    train=60_000,
    test=10_000,
    classes=10,
    per_class=(5923, 6742, 5958, 6131, 5842, 5421, 5918, 6265, 5851, 5949),
    train_moments=Moments((0.1306604762738429,), (0.3081078038564627,)),
    test_moments=Moments((0.13251460584233693,), (0.3104802479305351,)),
)


@source(
    "mnist",
    official=official_idx(
        "https://yann.lecun.com/exdb/mnist/",
        "https://ossci-datasets.s3.amazonaws.com/mnist/",
        MNIST_FOLDER,
        {
            "train-images-idx3-ubyte": IdxFile(
                "f68b3c2dcbeaaa9fbdd348bbdeb94873", "6bbc9ace898e44ae57da46a324031adb", 9_912_422
            ),
            "train-labels-idx1-ubyte": IdxFile(
                "d53e105ee54ea40749a09fcbcd1e9432", "a25bea736e30d166cdddb491f175f624", 28_881
            ),
            "t10k-images-idx3-ubyte": IdxFile(
                "9fb629c4189551a2d022fa330f9573f3", "2646ac647ad5339dbf082846283269ea", 1_648_877
            ),
            "t10k-labels-idx1-ubyte": IdxFile(
                "ec29112dd5afa0611ce80d1b7f02629c", "27ae3e4e09519cfbb04c329615203637", 4_542
            ),
        },
    ),
    expected=EXPECTED_MNIST,
)
def mnist(directory: DataDirectory) -> Pool:
    """Handwritten digits, 28x28 grey, 10 classes, 60,000 train and 10,000 test (MNIST)."""
    return idx_pool("mnist", directory, MNIST_FOLDER, MNIST, DIGITS)


@source(
    "fashion-mnist",
    official=official_idx(
        "https://github.com/zalandoresearch/fashion-mnist",
        "https://github.com/zalandoresearch/fashion-mnist/raw/master/data/fashion/",
        FASHION_FOLDER,
        {
            "train-images-idx3-ubyte": IdxFile(
                "8d4fb7e6c68d591d4c3dfef9ec88bf0d", "f4a8712d7a061bf5bd6d2ca38dc4d50a", 26_421_880
            ),
            "train-labels-idx1-ubyte": IdxFile(
                "25c81989df183df01b3e8a0aad5dffbe", "9018921c3c673c538a1fc5bad174d6f9", 29_515
            ),
            "t10k-images-idx3-ubyte": IdxFile(
                "bef4ecab320f06d8554ea6380940ec79", "8181f5470baa50b63fa0f6fddb340f0a", 4_422_102
            ),
            "t10k-labels-idx1-ubyte": IdxFile(
                "bb300cfdad3c16e7a12a480ee83cd310", "15d484375f8d13e6eb1aabb0c3f46965", 5_148
            ),
        },
    ),
    expected=Expected(
        train=60_000,
        test=10_000,
        classes=10,
        per_class=(6_000,) * 10,
        train_moments=Moments((0.2860405969887955,), (0.3530242445149226,)),
        test_moments=Moments((0.28684928071228494,), (0.35244415324744005,)),
    ),
)
def fashion_mnist(directory: DataDirectory) -> Pool:
    """Pictures of clothes, 28x28 grey, 10 classes, 60,000 train and 10,000 test (Fashion-MNIST)."""
    return idx_pool("fashion-mnist", directory, FASHION_FOLDER, FASHION_MNIST, CLOTHES)
