"""Python's arithmetic on 64 bits: right, or an error. What compiled functions call for every operation.

Each function stands for one operation of Python on kinds of numbers: `i` an int, `f` a float, `m` a number that may be
either and is held as a float. One that cannot say what Python would raises, and its row is run by Python itself; so
which error it is does not matter. Here are whole numbers; `exact_floats` has the rest. `helpers` carries their text
into the program that numba compiles.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

# Whole numbers.


def add_ii(a: int, b: int) -> int:
    """a + b."""
    if b >= 0:
        if a > 9223372036854775807 - b:
            raise OverflowError
    elif a < -9223372036854775808 - b:
        raise OverflowError
    return a + b


def sub_ii(a: int, b: int) -> int:
    """a - b."""
    if b >= 0:
        if a < -9223372036854775808 + b:
            raise OverflowError
    elif a > 9223372036854775807 + b:
        raise OverflowError
    return a - b


def mul_ii(a: int, b: int) -> int:
    """a * b; the product of the floats is off by far less than the room that is left here."""
    near = float(a) * float(b)
    if near > 9.2e18 or near < -9.2e18:
        raise OverflowError
    return a * b


def neg_i(a: int) -> int:
    """-a."""
    if a == -9223372036854775808:
        raise OverflowError
    return -a


def abs_i(a: int) -> int:
    """abs(a)."""
    return neg_i(a) if a < 0 else a


def floordiv_ii(a: int, b: int) -> int:
    """a // b; the processor stops at the least number divided by -1."""
    if b == 0:
        raise ZeroDivisionError
    if b == -1:
        return neg_i(a)
    return a // b


def mod_ii(a: int, b: int) -> int:
    """a % b."""
    if b == 0:
        raise ZeroDivisionError
    if b == -1:
        return 0
    return a % b


def div_ii(a: int, b: int) -> float:
    """a / b, which is the quotient of the floats while both are exact."""
    if b == 0:
        raise ZeroDivisionError
    if a > 9007199254740992 or a < -9007199254740992 or b > 9007199254740992 or b < -9007199254740992:
        raise OverflowError
    return float(a) / float(b)


def pow_ii(a: int, b: int) -> int:
    """a ** b for b >= 0."""
    if b < 0:
        raise ValueError
    found = 1
    while b > 0:
        if b & 1:
            found = mul_ii(found, a)
        b >>= 1
        if b > 0:
            a = mul_ii(a, a)
    return found


def pow_iii(a: int, b: int, m: int) -> int:
    """pow(a, b, m) for moduli whose products fit."""
    if b < 0 or m > 2147483647 or m < -2147483647:
        raise ValueError
    found, a = mod_ii(1, m), mod_ii(a, m)
    while b > 0:
        if b & 1:
            found = mod_ii(found * a, m)
        b >>= 1
        a = mod_ii(a * a, m)
    return found


def shl_ii(a: int, b: int) -> int:
    """a << b."""
    if b < 0:
        raise ValueError
    if a == 0:
        return 0
    if b > 62:
        raise OverflowError
    found = a << b
    if found >> b != a or found > 9223372036854775807 or found < -9223372036854775808:
        raise OverflowError
    return found


def shr_ii(a: int, b: int) -> int:
    """a >> b."""
    if b < 0:
        raise ValueError
    return a >> (63 if b > 63 else b)


def compare_if(a: int, b: float) -> int:
    """1, 2 or 4 as a is less than, equal to or greater than b; 0 where b is nan. Python compares without rounding."""
    if b != b:
        return 0
    if b >= 9223372036854775808.0:
        return 1
    if b < -9223372036854775808.0:
        return 4
    whole = int(b)
    if a != whole:
        return 1 if a < whole else 4
    rest = b - float(whole)
    if rest == 0.0:
        return 2
    return 1 if rest > 0.0 else 4


def range_of(start: int, stop: int, step: int) -> bool:
    """Whether a range can be counted in 64 bits; all but absurd ones can."""
    far = 4611686018427387904
    if step == 0 or start > far or start < -far or stop > far or stop < -far or step > far or step < -far:
        raise ValueError
    return True


def index_of(place: int, length: int) -> int:
    """Where an element lies that is counted from either end."""
    if place < 0:
        place += length
    if place < 0 or place >= length:
        raise IndexError
    return place


def is_in(numbers: Sequence[float], a: float) -> bool:
    """Whether a is one of some numbers of its own kind."""
    for one in numbers:  # noqa: SIM110  # numba compiles loops
        if one == a:
            return True
    return False


def min_of(a: float, b: float) -> float:
    """min(a, b) of one kind: the first, unless the second is less."""
    return b if b < a else a


def max_of(a: float, b: float) -> float:
    """max(a, b) of one kind: the first, unless the second is greater."""
    return b if b > a else a


def after(computed: float, found: float) -> float:
    """A result that does not need what was computed before it."""
    return found


def any_of(a: bool, b: bool) -> bool:
    """any((a, b))."""
    return a or b


def all_of(a: bool, b: bool) -> bool:
    """all((a, b))."""
    return a and b


# Functions of whole numbers.


def gcd_ii(a: int, b: int) -> int:
    """math.gcd(a, b)."""
    a, b = abs_i(a), abs_i(b)
    while b != 0:
        a, b = b, a % b
    return a


def lcm_ii(a: int, b: int) -> int:
    """math.lcm(a, b)."""
    if a == 0 or b == 0:
        return 0
    return mul_ii(abs_i(a) // gcd_ii(a, b), abs_i(b))


def isqrt_i(a: int) -> int:
    """math.isqrt(a)."""
    if a < 0:
        raise ValueError
    found = int(math.sqrt(float(a)))
    if found > 3037000499:
        found = 3037000499
    while found * found > a:
        found -= 1
    while found < 3037000499 and (found + 1) * (found + 1) <= a:
        found += 1
    return found


def factorial_i(a: int) -> int:
    """math.factorial(a) while it fits."""
    if a < 0 or a > 20:
        raise OverflowError
    found = 1
    for one in range(2, a + 1):
        found *= one
    return found


def comb_ii(n: int, k: int) -> int:
    """math.comb(n, k)."""
    if n < 0 or k < 0:
        raise ValueError
    if k > n:
        return 0
    if n - k < k:
        k = n - k
    found = 1
    for one in range(k):
        found = mul_ii(found, n - one) // (one + 1)
    return found


def perm_ii(n: int, k: int) -> int:
    """math.perm(n, k)."""
    if n < 0 or k < 0:
        raise ValueError
    if k > n:
        return 0
    found = 1
    for one in range(k):
        found = mul_ii(found, n - one)
    return found


def bit_length_i(a: int) -> int:
    """int.bit_length."""
    a = abs_i(a)
    found = 0
    while a > 0:
        a >>= 1
        found += 1
    return found


def bit_count_i(a: int) -> int:
    """int.bit_count."""
    a = abs_i(a)
    found = 0
    while a > 0:
        found += a & 1
        a >>= 1
    return found
