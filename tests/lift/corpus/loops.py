"""Loops and early returns: searches, iterations, polynomials, checks that raise."""

from __future__ import annotations

import math

COEFFICIENTS = [1.0, -0.5, 0.25, -0.125]
BRACKETS = ((11000, 0.10), (44725, 0.12), (95375, 0.22), (182100, 0.24))


def horner(x: float) -> float:
    result = 0.0
    for c in reversed(COEFFICIENTS):
        result = result * x + c
    return result


def income_tax(income: float) -> float:
    tax = 0.0
    previous = 0
    for limit, rate in BRACKETS:
        if income <= limit:
            return tax + (income - previous) * rate
        tax += (limit - previous) * rate
        previous = limit
    return tax + (income - previous) * 0.32


def newton_sqrt(x: float) -> float:
    if x < 0:
        raise ValueError("negative")
    guess = x / 2 or 1.0
    for _ in range(5):
        guess = (guess + x / guess) / 2
    return guess


def collatz_steps(n: int) -> int:
    steps = 0
    while n != 1 and steps < 100:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def digit_sum(n: int) -> int:
    n = abs(n)
    total = 0
    for _ in range(6):
        total += n % 10
        n //= 10
    return total


def is_small_prime(n: int) -> bool:
    if n < 2:
        return False
    for p in (2, 3, 5, 7, 11, 13):
        if n == p:
            return True
        if n % p == 0:
            return False
    return n < 289


def validate_age(age: int) -> int:
    if age < 0:
        raise ValueError("age must not be negative")
    if age > 150:
        raise ValueError(f"age {age} is not believable")
    return age


def shipping(weight: float, express: bool, country: str) -> float:
    if weight <= 0:
        raise ValueError("weight must be positive")
    if country == "US":
        base = 5.0
    elif country in ("CA", "MX"):
        base = 9.5
    else:
        base = 20.0
    cost = base + 1.2 * max(weight - 1, 0)
    if express:
        cost *= 2
    return round(cost, 2)


def triangle(a: float, b: float, c: float) -> str:
    if a <= 0 or b <= 0 or c <= 0:
        return "none"
    if a + b <= c or a + c <= b or b + c <= a:
        return "none"
    if a == b == c:
        return "equilateral"
    if a == b or b == c or a == c:  # noqa: SIM109
        return "isosceles"
    return "scalene"


def bit_count(n: int) -> int:
    count = 0
    for shift in range(16):
        count += (n >> shift) & 1
    return count


def taylor_exp(x: float) -> float:
    total = 1.0
    term = 1.0
    for n in range(1, 8):
        term *= x / n
        total += term
    return total


def gcd(a: int, b: int) -> int:
    while b:
        a, b = b, a % b
    return abs(a)


def poisson_pmf(k: int, rate: float) -> float:
    return rate**k * math.exp(-rate) / math.factorial(k)


def luhn_like(n: int) -> bool:
    total = 0
    for i in range(8):
        digit = n // 10**i % 10
        if i % 2 == 1:
            digit *= 2
            if digit > 9:
                digit -= 9
        total += digit
    return total % 10 == 0


def fizz(n: int) -> str:
    out = ""
    if n % 3 == 0:
        out += "Fizz"
    if n % 5 == 0:
        out += "Buzz"
    return out or str(n)


def clamp_index(i: int, n: int) -> int:
    if n <= 0:
        raise IndexError("empty")
    if i < 0:
        i += n
    return max(0, min(i, n - 1))
