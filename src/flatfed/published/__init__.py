"""The numbers that five papers published: values, hyper-parameters, and which of them belong to a run's setting."""

from flatfed.published.lookup import lookup, lookup_parameters
from flatfed.published.numbers import PublishedPaper, PublishedParameter, PublishedValue, papers

__all__ = ["PublishedPaper", "PublishedParameter", "PublishedValue", "lookup", "lookup_parameters", "papers"]
