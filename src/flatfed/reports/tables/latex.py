"""A table of methods x settings for a paper: LaTeX with booktabs and siunitx."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Sequence

from flatfed.reports.tables.grid import NOTHING
from flatfed.reports.tables.pivot import Pivot, PivotCell

NEEDS = r"% needs \usepackage{booktabs, siunitx, pifont}, siunitx of version 3 or later"
SETUP = r"\sisetup{mode = text, reset-text-series = false, text-series-to-math = true, uncertainty-mode = separate}"
"""Numbers in the weight of the text around them, and the deviation after a ±."""
CROSS = r"\ding{55}"
WIDE = 2
"""Columns of numbers from which on a table takes both columns of a page."""
PLAIN_WIDE = 5
"""Columns that a table of texts may have in one column of a page."""

SIGNS = {
    "\\": r"\textbackslash{}",
    "{": r"\{",
    "}": r"\}",
    "$": r"\$",
    "%": r"\%",
    "&": r"\&",
    "#": r"\#",
    "_": r"\_",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "|": r"\textbar{}",
    # The straight one is not in the fonts that LaTeX takes by default.
    '"': "{''}",
    "`": r"\textasciigrave{}",
    # After the end of a row, a bracket or a star would be taken for an option of it.
    "[": "{[}",
    "]": "{]}",
    "*": "{*}",
    "–": r"\textendash{}",
    "—": r"\textemdash{}",
    "…": r"\dots{}",
    "\xa0": "~",
    "✗": CROSS,
}
MATHS = {
    "±": r"\pm",
    "×": r"\times",
    "·": r"\cdot",
    "−": "-",
    "≤": r"\leq",
    "≥": r"\geq",
    "≠": r"\neq",
    "≈": r"\approx",
    "∞": r"\infty",
    "√": r"\surd",
    "→": r"\to",
    "←": r"\leftarrow",
    "∇": r"\nabla",
    "∈": r"\in",
}
GREEK = {
    "α": "alpha",
    "β": "beta",
    "γ": "gamma",
    "δ": "delta",
    "ε": "varepsilon",
    "ζ": "zeta",
    "η": "eta",
    "θ": "theta",
    "ι": "iota",
    "κ": "kappa",
    "λ": "lambda",
    "μ": "mu",
    "µ": "mu",
    "ν": "nu",
    "ξ": "xi",
    "π": "pi",
    "ρ": "rho",
    "σ": "sigma",
    "τ": "tau",
    "υ": "upsilon",
    "φ": "varphi",
    "χ": "chi",
    "ψ": "psi",
    "ω": "omega",
    "Γ": "Gamma",
    "Δ": "Delta",
    "Θ": "Theta",
    "Λ": "Lambda",
    "Ξ": "Xi",
    "Π": "Pi",
    "Σ": "Sigma",
    "Φ": "Phi",
    "Ψ": "Psi",
    "Ω": "Omega",
}
LATIN = "\u017f"
"""The last letter that every LaTeX prints as it is, with accents or without."""


def escape_latex(text: str) -> str:
    """Return text that LaTeX prints as it is; what no usual font holds becomes its number in brackets."""
    escaped = "".join(_sign(letter) for letter in text)
    # Two hyphens would become one dash.
    return re.sub("-(?=-)", "-{}", escaped)


def _sign(letter: str) -> str:
    if letter in SIGNS:
        return SIGNS[letter]
    if letter in MATHS:
        return rf"\ensuremath{{{MATHS[letter]}}}"
    if letter in GREEK:
        return rf"\ensuremath{{\{GREEK[letter]}}}"
    if letter.isascii() and letter.isprintable():
        return letter
    if "\xc0" <= letter <= LATIN:
        return letter
    return _raised(letter)


def _raised(letter: str) -> str:
    """Return a small digit or letter above or below the line."""
    kind, _, plain = unicodedata.decomposition(letter).partition(" ")
    commands = {"<sub>": "textsubscript", "<super>": "textsuperscript"}
    if kind in commands and " " not in plain:
        return rf"\{commands[kind]}{{{_sign(chr(int(plain, 16)))}}}"
    return f"{{[}}U+{ord(letter):04X}{{]}}"


def plain_latex(
    heads: Sequence[str], rows: Sequence[Sequence[str]], words: int, caption: str, note: str, label: str
) -> str:
    """Return a table of texts as a LaTeX float, the first `words` columns on the left, the others on the right."""
    kind = "table*" if len(heads) > PLAIN_WIDE else "table"
    lines = [NEEDS, rf"\begin{{{kind}}}", r"  \centering", r"  \footnotesize", r"  \setlength{\tabcolsep}{3pt}"]
    lines.append(rf"  \caption{{{escape_latex(caption)}}}")
    columns = "l" * words + "r" * (len(heads) - words)
    lines += [rf"  \label{{{label}}}", rf"  \begin{{tabular}}{{{columns}}}", r"    \toprule"]
    lines += [rf"    {_texts(heads)} \\", r"    \midrule", *(rf"    {_texts(row)} \\" for row in rows)]
    lines += [r"    \bottomrule", r"  \end{tabular}", "", r"  \smallskip"]
    lines.append(rf"  \parbox{{\linewidth}}{{\footnotesize {escape_latex(note)}}}")
    return "\n".join([*lines, rf"\end{{{kind}}}", ""])


def _texts(cells: Sequence[str]) -> str:
    return " & ".join(map(escape_latex, cells))


def pivot_latex(pivot: Pivot) -> str:
    """Return the table as a LaTeX float: best bold, second underlined, a cross for what diverged.

    It takes both columns of a page where it holds more than two settings. siunitx writes the numbers.
    """
    kind = "table*" if len(pivot.columns) > WIDE else "table"
    heads = " & ".join(escape_latex(head) for head in [pivot.corner, *pivot.heads()])
    lines = [NEEDS, rf"\begin{{{kind}}}", r"  \centering", r"  \small", r"  \setlength{\tabcolsep}{3pt}", f"  {SETUP}"]
    if pivot.caption:
        lines.append(rf"  \caption{{{escape_latex(pivot.caption)}}}")
    lines.append(rf"  \label{{{pivot.label}}}")
    lines += [
        rf"  \begin{{tabular}}{{l{'r' * len(pivot.columns)}}}",
        r"    \toprule",
        rf"    {heads} \\",
        r"    \midrule",
    ]
    lines += [f"    {_row(pivot, row)}" for row in pivot.rows]
    lines += [r"    \bottomrule", r"  \end{tabular}"]
    note = _note(pivot)
    if note:
        lines += ["", r"  \smallskip", rf"  \parbox{{\linewidth}}{{\footnotesize {note}}}"]
    return "\n".join([*lines, rf"\end{{{kind}}}", ""])


def _row(pivot: Pivot, row: str) -> str:
    cells = [_cell(pivot, pivot.cell(row, column), column) for column in pivot.columns]
    return " & ".join([escape_latex(row), *cells]) + r" \\"


def _cell(pivot: Pivot, cell: PivotCell, column: str) -> str:
    if cell.mean is None:
        return CROSS if cell.has_diverged else escape_latex(cell.remark or NOTHING)
    mean, deviation = pivot.numbers(cell, column)
    number = rf"\num{{{mean} \pm {deviation}}}" if deviation else rf"\num{{{mean}}}"
    if cell.is_best:
        return rf"\textbf{{{number}}}"
    if cell.is_second:
        return rf"\underline{{{number}}}"
    return number


def _note(pivot: Pivot) -> str:
    """Return what the numbers and the marks are."""
    marks = pivot.marks(r"\textbf{bold}", r"\underline{underlined}", CROSS)
    return " ".join(part for part in (escape_latex(pivot.note), marks) if part)
