"""What differs where PyTorch's samples of its operations are computed by NumPy's and SciPy's names, and why.

A list, and a part of docs/pytorch-names.md: `python -m tools.pytorch_differences` writes that between its markers;
tests/programs/test_pytorch_operations.py computes the samples, which show no others, and holds the part to be current.
"""

from __future__ import annotations

import pathlib
from typing import NamedTuple, final

from .upstream_differences import with_table

__all__ = ["DIFFERENCES", "PAGE", "PeerDifference", "page"]

PAGE = pathlib.Path(__file__).parent.parent / "docs" / "pytorch-names.md"


@final
class PeerDifference(NamedTuple):
    """A difference from PyTorch that stays.

    Attributes:
        functions: a regular expression of PyTorch's names.
        kinds: a regular expression of what has been changed of a sample, or "error", and of what differs.
        listed: what the page says that differs.
        here: what it is here.
        theirs: what PyTorch has.
    """

    functions: str
    kinds: str
    listed: str
    here: str
    theirs: str


DIFFERENCES = (
    PeerDifference(
        r"clamp_m\w+|atan2|bitwise_\w+|copysign|eq|f?max\w*|f?min\w*|fmod|remainder|g[et]|l[et]|ne|logaddexp|logical_\w+|"
        r"heaviside|lcm|gcd|isclose|nextafter|igammac?|pow|float_power|hypot|xlogy|special\.(xlog1py|zeta)|masked_fill",
        r"error \| not-raised",
        "numbers in the place of one array or both, as in `np.maximum(x, 2)`",
        "taken",
        "an error",
    ),
    PeerDifference(
        r"roll|trace|tri[lu]|linalg\.cross",
        r"error \| not-raised",
        "`np.roll` by several shifts along one axis, `np.trace` of stacks, `np.tril` and `np.triu` of a row, "
        "`np.cross` of pairs",
        "taken, as NumPy does",
        "an error",
    ),
    PeerDifference(
        r"dot|diff|matrix_exp|outer|fft\.\w+",
        r"(a number|nothing) \| not-raised",
        "`np.dot`, `np.outer` and `expm` of numbers, `np.fft` of no rows",
        "taken",
        "an error",
    ),
    PeerDifference(
        r"(nan)?quantile|logsumexp|std|var|flip|gather|linalg\.vecdot|cumsum|cumprod|index_select",
        r".* \| (raised|shape)",
        "`axis=0` and `axis=-1` of arrays without axes",
        "an error, or an axis, as in NumPy",
        "that of a number",
    ),
    PeerDifference(
        r"take_along_dim",
        r".* \| (raised|shape)",
        "indices of `np.take_along_axis`",
        "they have as many axes as the array, or one without an `axis`",
        "they broadcast",
    ),
    PeerDifference(
        r"logaddexp", r".* \| raised", "`np.logaddexp` of complex numbers", "an error, as in NumPy", "taken"
    ),
    PeerDifference(
        r"heaviside|sign|sgn|abs|special\.i1e?",
        r"NaN \| (value|gradient)",
        "`np.heaviside` and `np.sign` of NaN, gradients of `np.abs`, `special.i1` and `special.i1e` there",
        "NaN",
        "a number",
    ),
    PeerDifference(
        r"clamp_m\w+|prod",
        r"NaN \| gradient|infinity \| gradient",
        "gradients of `np.maximum`, `np.minimum` and `np.prod` beside NaN and infinities",
        "that of the element that is NaN, and the product of the others",
        "0, or NaN",
    ),
    PeerDifference(
        r"fmax|fmin|clamp",
        r"NaN \| gradient",
        "gradients of `np.fmax`, `np.fmin` and `np.clip` by a NaN",
        "0",
        "1 since 2.14",
    ),
    PeerDifference(
        r"quantile|nanmean",
        r"NaN \| gradient",
        "gradients of `np.quantile` and `np.nanmean` of nothing but NaN",
        "0, since no element is looked at",
        "that of the element, or NaN",
    ),
    PeerDifference(
        r"linalg\.(inv|cholesky)",
        r"(NaN|infinity) \| (value|not-raised)",
        "`np.linalg.inv` and `np.linalg.cholesky` beside NaN and infinities",
        "what LAPACK makes of them",
        "other numbers, or an error",
    ),
    PeerDifference(
        r"linalg\.cholesky",
        r".* \| (gradient|second derivative)",
        "gradients of `np.linalg.cholesky` of complex matrices",
        "Hermitian, as the matrix is",
        "not Hermitian where the incoming gradient has a complex diagonal",
    ),
    PeerDifference(
        r"special\.bessel_[jy][01]",
        r".* \| value",
        "the last digits of `special.j0`, `special.y1` and their kin",
        "those of double precision",
        "seven digits",
    ),
    PeerDifference(
        r"abs|atan2?|atanh|copysign|fmod|i0|log(2|10)|sqrt|angle|hypot|(special\.)?polygamma|special\.erfcx|logsumexp",
        r"infinity \| (gradient|value)",
        "gradients of `np.hypot`, `np.arctan2`, `np.copysign`, `np.i0`, `special.erfcx`, `special.polygamma`, "
        "`special.logsumexp`, and of complex functions, at infinities",
        "their limits, where there is one",
        "NaN",
    ),
    PeerDifference(
        r"v?dot|bmm|matmul|inner|diff|cumprod|sgn|fft\.\w+",
        r"infinity \| value",
        "products, sums and transforms of complex numbers of which a part is infinite",
        "NumPy's",
        "other parts of the result are NaN",
    ),
    PeerDifference(
        r"pow|float_power",
        r"zeros \| (value|gradient)",
        "complex powers of 0, and their gradients by the exponent",
        "NumPy's 1 for an exponent of 0; gradients of 0",
        "NaN",
    ),
    PeerDifference(r"angle", r".* \| value", "`np.angle` of -0.0", "pi, as in NumPy", "0"),
    PeerDifference(
        r"corrcoef|cov", r"nothing \| dtype", "`np.corrcoef` of no observations", "of float64, as in NumPy", "complex"
    ),
)


def page(text: str) -> str:
    """Return the text of the page with the list of differences between its markers."""
    rows = [(one.listed, one.here, one.theirs) for one in DIFFERENCES]
    return with_table(text, ("what", "here", "PyTorch"), rows, "python -m tools.pytorch_differences")


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text()))
