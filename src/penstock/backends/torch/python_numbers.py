"""Python's arithmetic on tensors, equal to `penstock.backends.arrow.python_numbers`: null wherever Python would raise.

A device cannot raise, so a row with a fault is one without a value: the mask that comes with the values says it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from penstock.backends.base import Kernel, Site, Unsupported, unsupported
from penstock.backends.torch.numbers import converted, real
from penstock.backends.torch.values import Value, both, is_valid
from penstock.expr.ops.python import EXACT_INTS
from penstock.expr.types import FLOAT64, INT64, parse_type

LEAST = -(1 << 63)
SPLITTER = float((1 << 27) + 1)


def _of_ints(function: Callable[[Tensor, Tensor], tuple[Tensor, Tensor]]) -> Kernel:
    """A kernel whose function gives the numbers, and which of them count."""

    def kernel(site: Site, left: Value, right: Value) -> Value:
        values, fine = function(left.values, right.values)
        return Value(values, both(left.valid, right.valid, fine))

    return kernel


def _add(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    found = a + b
    return found, ((a ^ found) & (b ^ found)) >= 0


def _subtract(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    found = a - b
    return found, ((a ^ b) & (a ^ found)) >= 0


def _multiply(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    found = a * b
    usual = (a != 0) & (a != -1)
    back = torch.div(found, torch.where(usual, a, 1), rounding_mode="floor")
    fine = torch.where(usual, (back == b) & (back * a == found), (a == 0) | (b != LEAST))
    return found, fine


def _floordiv(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    fine = (b != 0) & ~((a == LEAST) & (b == -1))
    return torch.div(torch.where(fine, a, 0), torch.where(fine, b, 1), rounding_mode="floor"), fine


def _modulo(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    usual = (b != 0) & (b != -1)
    return torch.remainder(torch.where(usual, a, 0), torch.where(usual, b, 1)), b != 0


def _power(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    """By squaring, with the exponent cut to 64 or 65: beyond, only -1, 0 and 1 have powers in 64 bits."""
    exponent = torch.where(b > 64, 64 + (b & 1), b.clamp(min=0))
    found, fine = torch.ones_like(a), b >= 0
    base, base_fine = a, torch.ones_like(fine)
    for _ in range(7):
        odd = (exponent & 1) == 1
        product, kept = _multiply(found, base)
        fine = fine & (~odd | (kept & base_fine))
        found = torch.where(odd, product, found)
        base, squared = _multiply(base, base)
        base_fine = base_fine & squared
        exponent = exponent >> 1
    return found, fine


def _bits(site: Site, left: Value, right: Value) -> Value:
    a, b, valid = left.values, right.values, both(left.valid, right.valid)
    operation = site.params["operation"]
    if operation in ("and", "or", "xor"):
        return Value({"and": a & b, "or": a | b, "xor": a ^ b}[operation], valid)
    few = b.clamp(0, 63)
    if operation == "rshift":
        return Value(a >> few, both(valid, b >= 0))
    found = a << few
    fine = torch.where(b > 63, a == 0, (b >= 0) & ((found >> few) == a))
    return Value(torch.where(b > 63, 0, found), both(valid, fine))


def _int_divide(site: Site, left: Value, right: Value) -> Value:
    a, b = left.values, right.values
    fine = (b != 0) & (a.clamp(-EXACT_INTS, EXACT_INTS) == a) & (b.clamp(-EXACT_INTS, EXACT_INTS) == b)
    return Value(real(left) / torch.where(fine, real(right), 1.0), both(left.valid, right.valid, fine))


def _fmod(a: Tensor, b: Tensor) -> Tensor:
    """What remains of a. torch.fmod is nan where a / b overflows, so multiples of b are taken off first."""
    for power in (1500, 1000, 500):
        multiple = b * 2.0 ** min(power, 1000) * 2.0 ** max(power - 1000, 0)
        a = torch.where(b.abs() < 1.0, torch.fmod(a, multiple), a)
    return torch.fmod(a, b)


def _float_divmod(a: Tensor, b: Tensor) -> tuple[Tensor, Tensor]:
    b = torch.where(b == 0, 1.0, b)
    modulo = _fmod(a, b)
    quotient = (a - modulo) / b
    turned = (modulo != 0) & ((b < 0) != (modulo < 0))
    quotient = torch.where(turned, quotient - 1.0, quotient)
    zero = torch.zeros_like(b)
    modulo = torch.where(modulo == 0, torch.copysign(zero, b), torch.where(turned, modulo + b, modulo))
    floor = torch.floor(quotient)
    floor = torch.where(quotient - floor > 0.5, floor + 1.0, floor)
    return torch.where(quotient == 0, torch.copysign(zero, a / b), floor), modulo


def _of_reals(place: int) -> Kernel:
    def kernel(site: Site, left: Value, right: Value) -> Value:
        a, b = real(left), real(right)
        return Value(_float_divmod(a, b)[place], both(left.valid, right.valid, b != 0))

    return kernel


def _float_power(site: Site, left: Value, right: Value) -> Value:
    a, b = real(left), real(right)
    found = torch.where((a == 1) | ((a == -1) & b.isinf()), 1.0, torch.pow(a, b))
    finite = a.isfinite() & b.isfinite()
    bad = ((a == 0) & (b < 0) & finite) | ((a < 0) & finite & (b != b.round())) | (finite & found.isinf())
    return Value(found, both(left.valid, right.valid, ~bad))


def _float_round(site: Site, x: Value) -> Value:
    scale = float(10 ** site.params["digits"])
    values = real(x)
    usual = (values * scale).abs() < 2.0**53
    a = torch.where(usual, values, 0.0)
    p = a * scale
    high = a * SPLITTER - (a * SPLITTER - a)
    low = a - high
    scale_high = scale * SPLITTER - (scale * SPLITTER - scale)
    scale_low = scale - scale_high
    rest = low * scale_low - (((p - high * scale_high) - low * scale_high) - high * scale_low)
    near = p.round()
    off = p - near
    odd = torch.fmod(p, 2.0) != 0
    step = torch.where((rest.abs() > 0.5) | ((rest.abs() == 0.5) & odd), rest.sign(), 0.0)
    step = torch.where(off == 0, step, 0.0)
    step = torch.where((off == 0.5) & (rest > 0), 1.0, step)
    step = torch.where((off == -0.5) & (rest < 0), -1.0, step)
    divisor = torch.full(
        (), scale, dtype=torch.float64, device=p.device
    )  # a bare number would be a reciprocal
    return Value(torch.where(usual, torch.copysign((near + step) / divisor, values), values), x.valid)


DOMAINS: dict[str, Callable[[Tensor], Tensor]] = {
    "acos": lambda x: x.abs() <= 1,
    "asin": lambda x: x.abs() <= 1,
    "cos": torch.isfinite,
    "log": lambda x: x > 0,
    "log10": lambda x: x > 0,
    "log1p": lambda x: x > -1,
    "log2": lambda x: x > 0,
    "sin": torch.isfinite,
    "sqrt": lambda x: x >= 0,
    "tan": torch.isfinite,
}
"""Where Python's function has a value; for others wherever the result is finite, or the argument is not."""


def _cbrt(x: Tensor) -> Tensor:
    """One step of Newton's makes it exact to the last place or so; zeros and infinities stay."""
    scaled = torch.where(x.abs() < 1e-200, x * 2.0**600, x)
    root = torch.copysign(scaled.abs().pow(1 / 3), scaled)
    root = root - (root - scaled / (root * root)) / 3
    root = torch.where(x.abs() < 1e-200, root * 2.0**-200, root)
    return torch.where((x == 0) | x.isinf(), x, root)


def _large(x: Tensor, hyperbolic: Tensor, odd: bool) -> Tensor:
    """cosh and sinh, which torch lets overflow too early."""
    half = torch.exp(x.abs() / 2)
    found = half * 0.5 * half
    return torch.where(x.abs() > 700, torch.copysign(found, x) if odd else found, hyperbolic)


def _math(site: Site, *args: Value) -> Value:
    function = site.params["function"]
    values = [real(arg) for arg in args]
    valid = both(*(arg.valid for arg in args))
    if len(values) == 2:
        return _of_two(function, values[0], values[1], valid)
    (x,) = values
    found = _cbrt(x) if function == "cbrt" else getattr(torch, function)(x)
    if function in ("sinh", "cosh"):
        found = _large(x, found, function == "sinh")
    fine = DOMAINS[function](x) | x.isnan() if function in DOMAINS else ~(x.isfinite() & found.isinf())
    return Value(found, both(valid, fine))


def _of_two(function: str, a: Tensor, b: Tensor, valid: Tensor | None) -> Value:
    found: Tensor = _fmod(a, b) if function == "fmod" else getattr(torch, function)(a, b)
    if function == "hypot":
        return Value(found, both(valid, ~(a.isfinite() & b.isfinite() & found.isinf())))
    if function == "fmod":
        return Value(found, both(valid, a.isnan() | b.isnan() | (a.isfinite() & (b != 0))))
    return Value(found, valid)


def _kept(site: Site, x: Value) -> tuple[Value, Tensor]:
    """A column as an argument, and which values lose nothing."""
    target = parse_type(site.params["to"])
    source = site.types[0].item if site.types[0].kind == "list" else site.types[0]
    goal = target.item if target.kind == "list" else target
    yes = torch.ones_like(x.values, dtype=torch.bool)
    plain = Value(x.values.reshape(-1))
    if goal.kind == "int" and source.kind == "float":
        found = converted(plain, FLOAT64, INT64)
        same = is_valid(found) & (real(found) == plain.values)
        return Value(found.values.reshape(x.values.shape), x.valid, x.items), same.reshape(x.values.shape)
    if goal.kind == "float" and source.kind == "int":
        back = converted(Value(real(plain)), FLOAT64, INT64)
        same = is_valid(back) & (back.values == plain.values)
        return Value(real(x), x.valid, x.items), same.reshape(x.values.shape)
    if goal.kind in ("int", "float"):
        dtype = torch.int64 if goal.kind == "int" else torch.float64
        return Value(x.values.to(dtype), x.valid, x.items), yes
    return x, yes


def _rows(x: Value, same: Tensor) -> Tensor:
    if same.dim() == 1:
        return same
    return (same if x.items is None else same & x.items).all(dim=1)


def _convert(site: Site, x: Value) -> Value:
    found, same = _kept(site, x)
    return Value(found.values, both(found.valid, _rows(x, same)), found.items)


def _fits(site: Site, x: Value) -> Value:
    found, same = _kept(site, x)
    return Value(_rows(x, same) | ~is_valid(found))


def _raise_faults(site: Site, value: Value, fault: Value) -> Value:
    return Value(value.values, both(value.valid, ~is_valid(fault)), value.items)


KERNELS: dict[str, Kernel | Unsupported] = {
    "int_add": _of_ints(_add),
    "int_subtract": _of_ints(_subtract),
    "int_multiply": _of_ints(_multiply),
    "int_floordiv": _of_ints(_floordiv),
    "int_modulo": _of_ints(_modulo),
    "int_power": _of_ints(_power),
    "int_bits": _bits,
    "int_divide": _int_divide,
    "float_floordiv": _of_reals(0),
    "float_modulo": _of_reals(1),
    "float_power": _float_power,
    "float_round": _float_round,
    "math": _math,
    "days_between": lambda site, a, b: Value(a.values - b.values, both(a.valid, b.valid)),
    "convert_argument": _convert,
    "argument_fits": _fits,
    "raise_faults": _raise_faults,
    "list_at": unsupported(
        "the place differs from row to row. Take an element at a fixed place: .element(0)."
    ),
}
