"""Which operations mean the same on a matrix with a client in each row as on each client's vector.

A method's code is written for one client. Run on rows, `a + b` still is what it says, but `a.norm()` would mix the
clients. So whatever is not known to work row by row is refused; the clients then go on one by one.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, NoReturn

import torch
from torch import Tensor
from torch.overrides import TorchFunctionMode

ARITHMETIC = {"add", "sub", "mul", "div", "true_divide", "neg", "abs", "lerp", "addcmul", "addcdiv"}
OTHERS = {"clone", "sign", "sqrt", "square", "clamp", "maximum", "minimum", "zeros_like", "ones_like"}
OPERATORS = {f"__{name}__" for name in ("add", "radd", "sub", "rsub", "mul", "rmul", "truediv", "rtruediv", "neg")}
IN_PLACE = {f"__{name}__" for name in ("iadd", "isub", "imul", "itruediv")} | {"copy_", "zero_"}
ELEMENTWISE = ARITHMETIC | {f"{name}_" for name in ARITHMETIC} | OTHERS | OPERATORS | IN_PLACE
"""Tested to give the bits of a client's own vector wherever its row lies (powers, for one, do not)."""

REDUCTIONS = {"linalg_vector_norm", "sum"}
"""Row by row with `dim=-1, keepdim=True`."""

FACTS = {"dtype", "device", "is_cuda", "requires_grad"}
"""Attributes that a matrix shares with its rows."""

DRAWS = re.compile("rand|normal|uniform|dropout|bernoulli|binomial|multinomial|poisson|exponential|cauchy|geometric")
"""Names of what draws: from the global generator, which is keyed for one client, where it is given no other."""


class NotTogether(Exception):
    """These clients must take their steps one by one; the message says why."""


class NotRowWise(NotTogether):
    """The method's code is not made of operations on rows: it would fail the next time too."""


class RowWise(TorchFunctionMode):
    """While it is entered, torch refuses what may mix the rows of a matrix."""

    def __init__(self) -> None:
        super().__init__()
        self._why, self._is_awake = "", False

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        """Let an operation pass, or refuse it."""
        kwargs = kwargs or {}
        if func.__name__ in ELEMENTWISE or _chooses(func, args, kwargs):
            return func(*args, **kwargs)
        if not _holds_matrix([*args, *kwargs.values()]):
            return self._of_vectors(func, args, kwargs)
        if _reduces_rows(func, kwargs) or _reads_fact(func):
            return func(*args, **kwargs)
        return self.refuse(f"{func.__name__} may mix clients")

    def _of_vectors(self, func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
        """Return what a function makes of what all clients have: the same for all, and no matrix."""
        if DRAWS.search(func.__name__) and kwargs.get("generator") is None:
            self.refuse(f"{func.__name__} draws from the generator of one client")
        result = func(*args, **kwargs)
        if isinstance(result, Tensor) and result.dim() > 1:  # its rows would be taken for those of clients
            self.refuse(f"{func.__name__} makes a matrix")
        return result

    def refuse(self, why: str) -> NoReturn:
        """Refuse, and remember it, as a method's code may catch the error and go another way."""
        self._why = why
        raise NotRowWise(why)

    def call(self, hook: Callable[..., Tensor], *arguments: Any) -> Tensor:
        """Return what a method's code returns for all rows."""
        try:
            with self:
                self._is_awake = True
                result = hook(*arguments)
        except Exception as error:  # of whom it is shows when they go one by one
            raise NotRowWise(str(error)) from error
        finally:
            self._is_awake = False
        if self._why:
            raise NotRowWise(self._why)
        return result

    @property
    def is_awake(self) -> bool:
        """Say whether the method's own code is running."""
        return self._is_awake

    @contextmanager
    def asleep(self) -> Iterator[None]:
        """Let everything pass: other code than the method's is running."""
        if not self._is_awake:
            yield
            return
        self._is_awake = False
        # torch declares no types for the two.
        self.__exit__(None, None, None)  # type: ignore[no-untyped-call]
        try:
            with usual_modes():
                yield
        finally:
            self.__enter__()  # type: ignore[no-untyped-call]
            self._is_awake = True


@contextmanager
def usual_modes() -> Iterator[None]:
    """Let autograd work, whatever a method's code has switched off for itself."""
    if torch.is_grad_enabled() and not torch.is_inference_mode_enabled():
        yield
        return
    with torch.inference_mode(False), torch.enable_grad():
        yield


def _holds_matrix(values: list[Any]) -> bool:
    for value in values:
        if isinstance(value, Tensor):
            if value.dim() > 1:
                return True
        elif isinstance(value, list | tuple) and _holds_matrix(list(value)):
            return True
    return False


def _chooses(func: Any, args: Any, kwargs: dict[str, Any]) -> bool:
    """Say whether it is `where` with both values; with the condition alone it tells places in the matrix."""
    return func.__name__ == "where" and len(args) + len(kwargs) >= 3


def _reduces_rows(func: Any, kwargs: dict[str, Any]) -> bool:
    return func.__name__ in REDUCTIONS and kwargs.get("dim") == -1 and kwargs.get("keepdim") is True


def _reads_fact(func: Any) -> bool:
    """Say whether it is the reading of an attribute that says nothing of the shape."""
    return func.__name__ == "__get__" and func.__self__.__name__ in FACTS
