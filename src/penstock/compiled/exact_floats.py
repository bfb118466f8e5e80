"""Python's arithmetic on floats, and on numbers that may be ints or floats: right, or an error, as in `exact`.

In a compiled program `c_pow` and `c_fmod` are the functions of the C library that Python itself calls.
"""

from __future__ import annotations

import math

c_pow, c_fmod = math.pow, math.fmod

# Floats.


def div_ff(a: float, b: float) -> float:
    """a / b."""
    if b == 0.0:
        raise ZeroDivisionError
    return a / b


def mod_ff(a: float, b: float) -> float:
    """a % b, as CPython computes it."""
    if b == 0.0:
        raise ZeroDivisionError
    if math.isinf(a):
        return math.nan
    rest = a if math.isinf(b) else c_fmod(a, b)
    if rest == 0.0:
        return math.copysign(0.0, b)
    if (b < 0.0) != (rest < 0.0):
        rest += b
    return rest


def floordiv_ff(a: float, b: float) -> float:
    """a // b, as CPython computes it."""
    if b == 0.0:
        raise ZeroDivisionError
    if math.isinf(a):
        return math.nan
    rest = a if math.isinf(b) else c_fmod(a, b)
    quotient = (a - rest) / b
    if rest != 0.0 and (b < 0.0) != (rest < 0.0):
        quotient -= 1.0
    if quotient == 0.0:
        return math.copysign(0.0, a / b)
    if not abs(quotient) < 4503599627370496.0:
        return quotient
    down = float(math.floor(quotient))
    if quotient - down > 0.5:
        down += 1.0
    return down


def pow_ff(a: float, b: float) -> float:
    """a ** b; infinities, results too large and too small for certainty are left to Python."""
    if b == 0.0:
        return 1.0
    if a != a:
        return a
    if b != b:
        return 1.0 if a == 1.0 else b
    if math.isinf(a) or math.isinf(b):
        raise OverflowError
    odd = c_fmod(abs(b), 2.0) == 1.0
    if a == 0.0:
        if b < 0.0:
            raise ZeroDivisionError
        return a if odd else 0.0
    if a < 0.0 and c_fmod(b, 1.0) != 0.0:
        raise ValueError
    found = c_pow(abs(a), b)
    if found < 2.3e-308 or found > 1.7e308:
        raise OverflowError
    return -found if a < 0.0 and odd else found


def math_pow(a: float, b: float) -> float:
    """math.pow(a, b) of finite numbers."""
    if math.isinf(a) or math.isinf(b) or a != a or b != b:
        raise ValueError
    if a == 0.0 or (a < 0.0 and c_fmod(b, 1.0) != 0.0):
        raise ValueError
    found = c_pow(a, b)
    if math.isinf(found):
        raise OverflowError
    return found


def math_fmod(a: float, b: float) -> float:
    """math.fmod(a, b)."""
    if a != a or b != b:
        return math.nan
    if b == 0.0 or math.isinf(a):
        raise ValueError
    return a if math.isinf(b) else c_fmod(a, b)


def math_sqrt(a: float) -> float:
    """math.sqrt(a)."""
    if a < 0.0:
        raise ValueError
    return math.sqrt(a)


def is_close(a: float, b: float, relative: float, absolute: float) -> bool:
    """math.isclose(a, b)."""
    if relative < 0.0 or absolute < 0.0:
        raise ValueError
    if a == b:
        return True
    if math.isinf(a) or math.isinf(b):
        return False
    apart = abs(b - a)
    return apart <= abs(relative * b) or apart <= abs(relative * a) or apart <= absolute


# Numbers that may be ints or floats, held as floats. An int among them is at most 2**53, so that the float is exact;
# what is larger is a float for certain. -0.0 is where the two differ: ints have none.


def mixed_i(a: int) -> float:
    """An int, where there may also be a float."""
    if a > 9007199254740992 or a < -9007199254740992:
        raise OverflowError
    return float(a)


def mixed_sum(a: float, b: float, found: float) -> float:
    """What + or - gave: not beyond what ints add exactly."""
    most = 9007199254740992.0
    if abs(found) > most and abs(a) <= most and abs(b) <= most:
        raise OverflowError
    return found


def plain_zero(found: float) -> float:
    """A result that is not -0.0, of which it is not known whether Python has it."""
    if found == 0.0 and math.copysign(1.0, found) < 0.0:
        raise ValueError
    return found


def add_mm(a: float, b: float) -> float:
    """a + b."""
    return mixed_sum(a, b, a + b)


def sub_mm(a: float, b: float) -> float:
    """a - b."""
    return mixed_sum(a, b, a - b)


def mul_mm(a: float, b: float) -> float:
    """a * b."""
    return plain_zero(mixed_sum(a, b, a * b))


def floordiv_mm(a: float, b: float) -> float:
    """a // b."""
    return plain_zero(floordiv_ff(a, b))


def mod_mm(a: float, b: float) -> float:
    """a % b."""
    return plain_zero(mod_ff(a, b))


def neg_m(a: float) -> float:
    """-a."""
    if a == 0.0:
        raise ValueError
    return -a


# From floats to ints.


def int_f(a: float) -> int:
    """int(a)."""
    if not -9223372036854775808.0 <= a < 9223372036854775808.0:
        raise OverflowError
    return int(a)


def floor_f(a: float) -> int:
    """math.floor(a)."""
    if not -9223372036854775808.0 <= a < 9223372036854775808.0:
        raise OverflowError
    return math.floor(a)


def ceil_f(a: float) -> int:
    """math.ceil(a)."""
    if not -9223372036854775808.0 <= a < 9223372036854775808.0:
        raise OverflowError
    return math.ceil(a)


def round_f(a: float) -> int:
    """round(a): halves to the even."""
    down = floor_f(a)
    if abs(a) >= 4503599627370496.0:
        return down
    rest = a - float(down)
    if rest > 0.5 or (rest == 0.5 and down % 2 == 1):
        down += 1
    return down


def round_fi(a: float, digits: int) -> float:
    """round(a, digits), of the decimal digits that the float has, not of a product that was rounded already.

    x * 10**digits is computed exactly, as the sum of two floats, so that a half is told from what is near it. A whole
    number below 2**53 by a power of ten up to 10**22 is rounded once, which is the float nearest to the digits.
    """
    if not abs(a) < 4503599627370496.0:
        if digits < 0:
            raise ValueError
        return a
    if digits < 0 or digits > 22:
        raise ValueError
    scale = 1.0
    for _ in range(digits):
        scale *= 10.0
    size = abs(a)
    near = size * scale
    if near >= 4503599627370496.0:
        raise OverflowError
    cut = 134217729.0 * size
    size_high = cut - (cut - size)
    size_low = size - size_high
    cut = 134217729.0 * scale
    scale_high = cut - (cut - scale)
    scale_low = scale - scale_high
    lost = (
        (size_high * scale_high - near) + size_high * scale_low + size_low * scale_high
    ) + size_low * scale_low
    down = float(math.floor(near))
    beyond = (near - down - 0.5) + lost
    if beyond > 0.0 or (beyond == 0.0 and c_fmod(down, 2.0) == 1.0):
        down += 1.0
    return math.copysign(down / scale, a)


def whole_f(a: float) -> int:
    """A float as a result that is declared int: without loss."""
    found = int_f(a)
    if float(found) != a:
        raise ValueError
    return found


def is_integer_f(a: float) -> bool:
    """float.is_integer."""
    return math.isfinite(a) and c_fmod(a, 1.0) == 0.0
