"""Corrupted images: the 19 corruptions of CIFAR-10-C and CIFAR-100-C in five severities, published or generated.

`published(dataset, ...)` reads the official files; `CorruptedExamples` corrupts any image test set with the same
severities. A corrupted image depends on the seed, the corruption, the severity and its own index alone.
"""

from flatfed.data.corruptions import blur, digital, noise, weather
from flatfed.data.corruptions.corruption_types import (
    SEVERITIES,
    STANDARD,
    Corruption,
    corrupt,
    corruptions,
    find,
)
from flatfed.data.corruptions.examples import CorruptedExamples, white_of
from flatfed.data.corruptions.published import PublishedExamples, has_published, published

__all__ = [
    "SEVERITIES",
    "STANDARD",
    "CorruptedExamples",
    "Corruption",
    "PublishedExamples",
    "blur",
    "corrupt",
    "corruptions",
    "digital",
    "find",
    "has_published",
    "noise",
    "published",
    "weather",
    "white_of",
]
