"""Functions compiled by numba: what Python gives, or not used."""

from __future__ import annotations

import enum
import http
import itertools
import math
import os
import pickle
import random
import signal
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import psutil
import pyarrow as pa
import pytest
from corpus import FUNCTIONS
from corpus.loops import collatz_steps, gcd, poisson_pmf

from penstock.backends.edge_values import inputs
from penstock.backends.verify import declared_as, same
from penstock.compiled import Compiled, compile_function, helpers
from penstock.compiled import check as checking
from penstock.compiled.carried import carried
from penstock.compiled.check import Agreement, declared, rows_for
from penstock.compiled.child import originals
from penstock.compiled.columns import column_of
from penstock.compiled.plain import numbers_among
from penstock.compiled.program import program_of
from penstock.compiled.values import Known
from penstock.errors import NotLifted, OutOfReach
from penstock.expr.lift.forms import signature_of
from penstock.wire.rows import Declared

FACTOR = 31


class BadPrice(Exception):
    __module__ = "__main__"  # as in a notebook, from where it is sent whole


def endless(n: int) -> int:
    """Ends for 1 and greater, as far as anybody knows; for others never."""
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def hashed(n: int, rounds: int) -> int:
    found = n
    for _ in range(rounds % 50):
        found = found * FACTOR + 7
    return found


def price(amount: float, count: int) -> float:
    if count < 0:
        raise BadPrice(f"{count} pieces at {amount}")
    total = 0
    for place in range(min(count, 100)):
        total += amount / (place + 1)
    return total / count


def signs(a: int, b: int, x: float, y: float) -> float:
    """Every operator whose sign or zero is often got wrong, one after the other."""
    parts = 0.0
    for which in range(8):
        part = 0.0
        if which == 0 and b:
            part = a // b
        elif which == 1 and b:
            part = a % b
        elif which == 2 and y:
            part = x // y
        elif which == 3 and y:
            part = x % y
        elif which == 4 and b:
            part = a / b
        elif which == 5 and abs(x) < 1e6:
            part = round(x, 2)
        elif which == 6 and abs(y) < 1e6:
            part = round(y)
        elif which == 7 and x < a:
            part = -x
        parts = parts / 2 + part
    return parts


def missing(x: float | None, n: int) -> float | None:
    if x is None:
        return -1.0
    while n > 10:
        n //= 2
    return None if n < 0 else x * n


def is_prime(n: int) -> bool:
    return n > 1 and all(n % i for i in range(2, math.isqrt(min(n, 10_000)) + 1))


def squared(x: float) -> float:
    return x * x


def summed(n: int, x: float) -> float:
    total = 0.0
    for i in range(n % 20):
        total += squared(x) / (i + FACTOR)
    return total


def retried(n: int, d: int) -> int:
    while n > 1000:
        n //= 3
    try:
        return n // d
    except ZeroDivisionError:
        return -1


def signed(a: int, b: int) -> int:
    while a > 100:
        a -= b if b > 50 else 50
    return a % b if b else 0


def others(n: int, d: int, x: float) -> float:
    """Calls of other functions, generators and handlers, and a total that begins as an int."""
    total = 0
    if is_prime(n):
        total += 1
    total += summed(n, x)
    return total + retried(n, d)


EXACT = [collatz_steps, gcd, poisson_pmf, endless, hashed, price, signs, missing, others]
BY_NAME: dict[str, Any] = {function.__name__: function for function in EXACT}


def unchecked(function: Any) -> Compiled:
    """Compiled in this process and not yet checked: what the tests compare."""
    signature = signature_of(function, None, None)
    assert signature.returns is not None
    program = program_of(function, signature.arguments, signature.returns)
    arguments = tuple((name, declared_as(form)) for name, form in signature.arguments.items())
    return Compiled(carried(function), program, arguments, declared_as(signature.returns), Agreement(0, 0, 0))


@pytest.fixture(scope="module")
def compiled() -> dict[str, Compiled]:
    return {function.__name__: unchecked(function) for function in EXACT}


def columns(of: Compiled, rows: list[tuple[Any, ...]]) -> list[pa.Array]:
    types = {"bool": pa.bool_(), "int": pa.int64(), "float": pa.float64()}
    return [
        pa.array([row[place] for row in rows], types[form.kind])
        for place, (_, form) in enumerate(of.arguments)
    ]


def alone(of: Compiled, row: tuple[Any, ...]) -> tuple[str, Any]:
    try:
        return "returns", of(*columns(of, [row]))[0].as_py()
    except Exception as error:
        return "raises", type(error).__name__


def some_rows(of: Compiled) -> list[tuple[Any, ...]]:
    chance = random.Random(7)
    make: dict[str, Callable[[], Any]] = {
        "bool": lambda: chance.random() < 0.5,
        "int": lambda: chance.choice((chance.randrange(-50, 2000), chance.randrange(10**6))),
        "float": lambda: chance.gauss(0, 1) * 10 ** chance.randrange(-2, 4),
    }
    random_rows = [tuple(make[form.kind]() for _, form in of.arguments) for _ in range(200)]
    nothing = [tuple(None if form.optional else 3 for _, form in of.arguments)]
    arguments = signature_of(BY_NAME[of.program.name], None, None).arguments
    return [*rows_for(of.function, of.program, arguments), *random_rows, *nothing]


@pytest.mark.parametrize("name", [function.__name__ for function in EXACT])
def test_values_and_errors_are_those_of_python(name: str, compiled: dict[str, Compiled]) -> None:
    one = compiled[name]
    rows = some_rows(one)
    done = originals(one.function, [name for name, _ in one.arguments], rows)
    returns = signature_of(BY_NAME[name], None, None).returns
    assert returns is not None
    told = [
        (row, declared(outcome, returns))
        for row, outcome in zip(rows, done, strict=False)
        if outcome is not None
    ]
    good = [(row, want) for row, want in told if want[0] == "returns"]
    assert len(good) > 60
    found = one(*columns(one, [row for row, _ in good])).to_pylist()
    wrong = [
        (row, want, have) for (row, want), have in zip(good, found, strict=True) if not same(want[1], have)
    ]
    assert wrong == []
    bad = [(row, want, alone(one, row)) for row, want in told if want[0] == "raises"]
    assert [one for one in bad if one[1] != one[2]] == []


def test_every_numeric_function_of_the_corpus_is_translated() -> None:
    reasons = {}
    for name, function in FUNCTIONS.items():
        signature = signature_of(function, None, None)
        try:
            assert signature.returns is not None
            program_of(function, signature.arguments, signature.returns)
        except NotLifted as refusal:
            if not refusal.reason.startswith(("its argument", "it returns")):
                reasons[name] = refusal.reason
    assert reasons == {
        "bisect_bucket": "bisect.bisect_right() is not compiled",
        "weighted_loop": "zip() is not compiled",
        "np_log_feature": "numpy.maximum() is not compiled",
        "rmse_term": "numpy.sqrt() is not compiled",
    }


def test_whole_numbers_never_wrap(compiled: dict[str, Compiled]) -> None:
    import numba

    wrapped = numba.njit(hashed)(2**62, 3)
    right = hashed(2**62, 3)
    assert wrapped != right, "numba alone wraps, or this test shows nothing"
    with pytest.raises(OutOfReach, match=rf"{right}\b.* 64 bits, in row 1") as caught:
        compiled["hashed"](pa.array([1, 2**62]), pa.array([3, 3]))
    assert caught.value.row == 1
    # What leaves 64 bits on the way and comes back is Python's to compute.
    n = 2**63 - 2
    assert compiled["endless"](pa.array([3, n // 3 * 2 + 1])).to_pylist() == [7, endless(n // 3 * 2 + 1)]


def test_errors_have_their_class_and_message(compiled: dict[str, Compiled]) -> None:
    run = compiled["price"]
    with pytest.raises(BadPrice, match=r"^-2 pieces at 1\.5\n") as caught:
        run(pa.array([1.0, 1.5, 2.5]), pa.array([1, -2, -3]))
    assert caught.value.args == ("-2 pieces at 1.5",)
    assert caught.value.__notes__ == ["raised by price() for row 1 of its input"]
    with pytest.raises(ZeroDivisionError, match="division by zero"):
        run(pa.array([1.0]), pa.array([0]))
    with pytest.raises(TypeError, match="argument 'count' is None, and is declared int"):
        run(pa.array([1.0, 1.0]), pa.array([1, None]))


def test_arguments_are_converted_without_loss(compiled: dict[str, Compiled]) -> None:
    run = compiled["gcd"]
    small = pa.array([12, 18], pa.int8()), pa.array([8.0, 27.0], pa.float32())
    assert run(*small).to_pylist() == [4, 9]
    assert run(pa.array([1, 12, 18, 1])[1:3], pa.array([0, 8, 27])[1:]).to_pylist() == [4, 9]
    assert run(pa.array([], pa.int64()), pa.array([], pa.int64())).to_pylist() == []
    assert run(pa.chunked_array([[12], [18]]), pa.array([True, False])).to_pylist() == [1, 18]
    with pytest.raises(TypeError, match="argument 'b' does not become int without loss") as caught:
        run(pa.array([1, 2]), pa.array([3.0, 2.5]))
    assert caught.value.__notes__ == ["raised by gcd() for row 1 of its input"]
    number, whole, truth = (Declared(kind, None, kind, False) for kind in ("float", "int", "bool"))
    assert column_of(pa.array([2**53, 2**53 + 1]), "x", number).lossy.tolist() == [False, True]
    assert column_of(pa.array([2**63, 5], pa.uint64()), "n", whole).lossy.tolist() == [True, False]
    assert column_of(pa.array([math.nan, 2.0**63, 4.0]), "n", whole).lossy.tolist() == [True, True, False]
    assert column_of(pa.nulls(2), "n", whole).missing.tolist() == [True, True]
    with pytest.raises(TypeError, match="argument 'b' gets a column of int64, and is declared bool"):
        column_of(pa.array([1]), "b", truth)
    with pytest.raises(TypeError, match="argument 'n' gets a column of string, and is declared int"):
        column_of(pa.array(["1"]), "n", whole)


# Constants of other classes than Python's own.


class Level(enum.IntEnum):
    LOW = 123_457
    HIGH = -98_765


class Share(float, enum.Enum):
    HALF = 0.5


class Colour(enum.Enum):
    RED = 5


class Code(int):
    def __index__(self) -> int:
        return 99


class Near(int):
    """Equal to its neighbours too."""

    def __eq__(self, other: object) -> bool:
        return isinstance(other, int) and abs(int(self) - other) < 2

    __hash__ = int.__hash__


class Anything:
    def __eq__(self, other: object) -> bool:
        return other == 5

    __hash__ = None  # type: ignore[assignment]


class Backwards(list[int]):
    def __getitem__(self, place: Any) -> Any:
        return super().__getitem__(-1 - place)


LEVELS = (Level.LOW, Level.HIGH, "none")
OF_NUMPY = {*np.array([123_457, -98_765])}
ENDS = (-(2**63), 2**63 - 1, 2**63, math.inf)
BACKWARDS = Backwards([1, 2, 3])
ODD = {
    one.__name__: (one(5),) for one in (Fraction, Decimal, complex, np.float32, Near, lambda _: Anything())
}


def a_member(n: int) -> int:
    steps = 0
    while n > 10**9 and steps < 70:
        n, steps = n // 2, steps + 1
    return (n in LEVELS) + 2 * (n in OF_NUMPY) + 4 * (n in ENDS)


def backwards(n: int) -> int:
    while n > 2:
        n -= 3
    return BACKWARDS[n]


def test_members_of_enums_and_scalars_of_numpy_are_numbers() -> None:
    rows = [123_457, -98_765, 99, 5, 0, -(2**63), 2**63 - 1]
    want = [a_member(n) for n in rows]
    assert want[:2] + want[-2:] == [3, 3, 4, 0]
    assert unchecked(a_member)(pa.array(rows)).to_pylist() == want


def test_the_check_looks_for_them_too() -> None:
    arguments = signature_of(a_member, None, None).arguments
    tried = {row[0] for row in itertools.islice(inputs(arguments, a_member), 400)}
    assert tried >= {123_457, -98_765, -(2**63)}


ITEMS = [
    *(Level.LOW, Level.HIGH, Share.HALF, Colour.RED, Code(5), Near(5), Anything(), http.HTTPStatus.OK),
    *(
        True,
        3,
        2.5,
        -0.0,
        2**53 + 1,
        -(2**63),
        2.0**63,
        math.inf,
        "3",
        b"3",
        None,
        (3,),
        date(2024, 2, 29),
        int,
    ),
    *(complex(3), Fraction(5, 2), Decimal("0.1"), object(), len),
    *(np.int8(3), np.uint64(2**64 - 1), np.int64(2**53 + 1), np.float64(0.1), np.float64(2.0**53)),
    *(np.float32(0.1), np.float16(3), np.True_, np.timedelta64(3), np.str_("3"), np.longdouble(3)),
]


@pytest.mark.parametrize(
    "item", ITEMS, ids=lambda item: f"{type(item).__name__} {item!r}"[:40].partition(" at 0x")[0]
)
@pytest.mark.parametrize("whole", [True, False])
def test_a_constant_is_the_number_it_equals_or_none_or_refused(item: Any, whole: bool) -> None:
    rows: list[Any] = [0, 1, 3, 4, 5, 6, 99, 200, 123_457, -98_765, 2**53, 2**53 + 1, -(2**63), 2**63 - 1]
    if not whole:
        rows = [*map(float, rows), 0.1, 0.5, 2.5, 2.0**63, 2.0**64, math.inf]
    try:
        found = numbers_among((item,), whole)
    except ValueError:
        taken = (bool, int, float, str, Level, Share, Colour, np.int8, np.bool_)
        assert type(item) not in taken
        return
    assert all(type(one) in (bool, int, float) for one in found)
    assert [row in found for row in rows] == [row in (item,) for row in rows]
    if getattr(item, "__hash__", None) is not None:
        assert [row in found for row in rows] == [row in {item} for row in rows]


@pytest.mark.parametrize("name", ODD)
def test_what_may_equal_a_number_is_refused(name: str) -> None:
    source = (
        "def looked_up(n: int) -> int:\n    while n > 9:\n        n -= 9\n    return 1 if n in ODD else 0\n"
    )
    function = _defined(source, "looked_up")
    function.__globals__["ODD"] = ODD[name]
    with pytest.raises(NotLifted, match=r"`in` what holds a \w+, which may equal a number"):
        checked(function)


def test_a_sequence_with_a_way_of_its_own_is_refused() -> None:
    with pytest.raises(NotLifted, match="an element of what is no constant tuple or list"):
        checked(backwards)


def test_tuples_of_what_looks_alike_are_not_alike() -> None:
    class Silent(int):
        def __repr__(self) -> str:
            return "?"

    assert Known((1, (2.0, "a"))) == Known((1, (2.0, "a")))
    assert Known((0.0,)) != Known((-0.0,))
    assert Known((Silent(1),)) != Known((Silent(2),))


# The check before use.


def checked(function: Any) -> Compiled:
    signature = signature_of(function, None, None)
    assert signature.returns is not None
    return compile_function(function, signature.arguments, signature.returns)


@pytest.fixture(scope="module")
def ready() -> Compiled:
    """Compiled and checked, as users get it: it never ends on half of the edge values."""
    return checked(endless)


def test_what_never_ends_on_some_rows_is_compiled_all_the_same(ready: Compiled) -> None:
    assert ready.agreement.rows > 60
    assert ready.agreement.unfinished > 10
    assert "more did not end and were left out" in str(ready.agreement)
    assert ready(pa.array([1, 6, 27])).to_pylist() == [0, 8, 111]
    assert not [one for one in psutil.Process().children() if "compiled" in " ".join(one.cmdline())]


def test_what_never_ends_at_all_is_refused() -> None:
    def stuck(n: int) -> int:
        while n == n:
            n = n + 1 if n < 5 else n - 1
        return n

    with pytest.raises(NotLifted, match=r"of \d+ generated rows it finished 0"):
        checked(stuck)


def test_a_process_that_cannot_be_interrupted_ends_with_the_deadline(monkeypatch: pytest.MonkeyPatch) -> None:
    def deaf(n: int) -> int:
        while n == n:
            n = n + 2 if n < 5 else n - 1
        return n

    monkeypatch.setattr(checking, "DEADLINE", 2.0)
    # A process begins with the signals blocked that are where it was started.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGPROF})
    try:
        with pytest.raises(NotLifted, match=r"it did not end within 2 seconds"):
            checked(deaf)
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def test_a_program_that_differs_is_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    good = helpers.texts()
    broken = good | {"mod_ii": "def mod_ii(a, b):\n    return a - b * int(a / b)\n"}
    monkeypatch.setattr(helpers, "texts", lambda: broken)
    with pytest.raises(NotLifted) as caught:
        checked(signed)
    assert "its compiled form differs from it: for a=" in caught.value.reason
    assert ", and the compiled form returns " in caught.value.reason
    assert "bug of Penstock's compiler" in caught.value.advice


def test_what_numba_does_not_compile_is_told_in_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    broken = helpers.texts() | {"mod_ii": "def mod_ii(a, b):\n    return [a, 'b']\n"}
    monkeypatch.setattr(helpers, "texts", lambda: broken)
    with pytest.raises(NotLifted, match="numba does not compile it") as caught:
        checked(gcd)
    assert "\n" not in caught.value.reason
    assert len(caught.value.reason) < 400


def test_without_numba_the_advice_is_to_install_it() -> None:
    script = textwrap.dedent(
        """
        import sys
        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] == "numba":
                    raise ModuleNotFoundError("No module named 'numba'", name="numba")
        sys.meta_path.insert(0, Blocked())
        from corpus.loops import gcd
        from penstock.compiled import compile_function
        from penstock.compiled.kernel import kernel_of
        from penstock.compiled.program import program_of
        from penstock.expr.lift.forms import signature_of
        signature = signature_of(gcd, None, None)
        for run in (
            lambda: compile_function(gcd, signature.arguments, signature.returns),
            lambda: kernel_of(program_of(gcd, signature.arguments, signature.returns)),
        ):
            try:
                run()
            except Exception as error:
                print(type(error).__name__, error)
        """
    )
    here = os.path.dirname(__file__)
    done = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=120, cwd=here, check=False
    )
    driver, executor = done.stdout.splitlines()
    assert driver.startswith("NotLifted gcd() is not lifted, line ")
    assert driver.endswith('numba, which compiles it, is not installed. pip install "penstock[numba]"')
    assert executor.startswith("ImportError gcd() was compiled by numba, which this Python does not have")


def text(s: str) -> int:
    return 1


def generator(n: int) -> int:
    yield n


def listing(n: int) -> int:
    found = []
    while n:
        found.append(n)
        n //= 2
    return len(found)


def itself(n: int) -> int:
    return 1 if n < 2 else n * itself(n - 1)


def unbound(n: int) -> int:
    while n > 3:
        last = n
        n -= 1
    return last


def sometimes(n: int) -> int:
    best = None
    for i in range(n):
        if best is None or i > best:
            best = i
    return best


def formatted(n: int) -> int:
    while n > 3:
        n -= 1
    return int(f"{n}")


def noisy(n: int) -> int:
    while n > 3:
        n -= 1
        print(n)
    return n


def huge(n: int) -> int:
    while n > 3:
        n = (n * 7) & 0xFFFFFFFFFFFFFFFF
    return n


def undeclared(n: int) -> bool:
    while n > 3:
        n -= 1
    return n


def among_all(n: int) -> bool:
    while n > 3:
        n -= 1
    return n in range(2**70)


REFUSED = [
    (among_all, r"`in` 1180591620717411303424 elements"),
    (undeclared, "no row returns bool, as it is declared"),
    (text, "its argument 's' is str"),
    (generator, "it is a generator or async"),
    (listing, r"the method \.append\(\) of a list is not compiled"),
    (itself, r"itself\(\) calls itself"),
    (unbound, "'last' may have no value here"),
    (sometimes, "'best' may be a NoneType here or something else"),
    (formatted, "an f-string is not compiled"),
    (noisy, r"print\(\) is not compiled"),
    (huge, "the constant 18446744073709551615 does not fit 64 bits"),
]


@pytest.mark.parametrize(("function", "reason"), REFUSED)
def test_refusals_say_where_and_why(function: Any, reason: str) -> None:
    with pytest.raises(NotLifted, match=reason) as caught:
        checked(function)
    first = function.__code__.co_firstlineno
    assert first <= caught.value.line <= first + 10
    assert caught.value.advice


# Elsewhere.


def shipped(of: Compiled) -> bytes:
    from pyspark import cloudpickle

    import penstock

    cloudpickle.register_pickle_by_value(penstock)
    try:
        return bytes(cloudpickle.dumps(of))
    finally:
        cloudpickle.unregister_pickle_by_value(penstock)


def test_it_runs_where_penstock_is_not_installed(ready: Compiled, compiled: dict[str, Compiled]) -> None:
    script = textwrap.dedent(
        """
        import pickle, sys
        class Blocked:
            def find_spec(self, name, path=None, target=None):
                if name.partition(".")[0] in ("penstock", "corpus", "test_compiled"):
                    raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        sys.meta_path.insert(0, Blocked())
        import pyarrow as pa
        pickled = sys.stdin.buffer.read()
        first, again = pickle.loads(pickled), pickle.loads(pickled)
        print(first(pa.array([27, 1])).to_pylist(), again(pa.array([6])).to_pylist())
        print(len(sys.modules["_penstock_compiled_kernels"].kernels))
        """
    )
    done = subprocess.run(
        [sys.executable, "-c", script], input=shipped(ready), capture_output=True, timeout=120, check=False
    )
    assert done.stdout.decode().splitlines() == ["[111, 0] [8]", "1"], done.stderr.decode()


def test_on_spark_it_equals_plain_python(spark, ready: Compiled) -> None:
    from pyspark import cloudpickle
    from pyspark.sql.pandas.functions import arrow_udf

    import penstock

    cloudpickle.register_pickle_by_value(penstock)
    try:

        def run(*arrays: pa.Array) -> pa.Array:
            return ready(*arrays)

        df = spark.range(1, 5001, numPartitions=2)
        found = df.select("id", arrow_udf(run, "long")("id").alias("steps")).toArrow()
        assert found["steps"].to_pylist() == [endless(n) for n in found["id"].to_pylist()]
        wrong = spark.createDataFrame([(-1, 1.0)], "count long, amount double")
        bad = unchecked(price)

        def fail(*arrays: pa.Array) -> pa.Array:
            return bad(*arrays)

        with pytest.raises(Exception, match=r"BadPrice: -1 pieces at 1\.0"):
            wrong.select(arrow_udf(fail, "double")("amount", "count")).toArrow()
    finally:
        cloudpickle.unregister_pickle_by_value(penstock)


def test_a_plain_pickle_goes_as_well(ready: Compiled) -> None:
    from pyspark import cloudpickle

    again = pickle.loads(cloudpickle.dumps(ready))
    assert isinstance(again, Compiled)
    assert again(pa.array([27])).to_pylist() == [111]
    assert again.program.digest == ready.program.digest


def test_rounding_to_digits_is_exact() -> None:
    from penstock.compiled.exact_floats import round_fi

    chance = random.Random(11)
    values = [chance.uniform(-1000, 1000) for _ in range(10_000)]
    values += [round(chance.uniform(-100, 100), 3) + 0.0005 * chance.choice((1, -1)) for _ in range(10_000)]
    values += [k / 8 for k in range(-400, 400)] + [
        2.675,
        1.005,
        -0.0,
        0.0,
        5e-324,
        1e11 + 0.3,
        math.inf,
        -math.inf,
    ]
    wrong = [
        (x, digits) for x in values for digits in range(5) if not same(round_fi(x, digits), round(x, digits))
    ]
    assert wrong == []


def test_functions_of_math_are_pythons_own() -> None:
    names = [name for name in helpers.ONE_REAL if hasattr(math, name)]
    chance = np.random.default_rng(3)
    rows = np.concatenate(
        [chance.normal(size=1000), chance.uniform(-1, 1, 1000), 10.0 ** chance.uniform(-5, 5, 1000)]
    )
    rows = np.concatenate([rows, [0.0, -0.0, 1.0, -1.0, math.nan, math.inf, -math.inf, 709.9, -746.0]])
    source = "import math\ndef every(x: float, which: int) -> float:\n"
    for place, name in enumerate(names):
        source += f"    if which == {place}:\n        return math.{name}(x)\n"
    source += "    return math.fmod(x, 0.7) + math.atan2(x, 2.0) + abs(x) ** 1.7 + math.pow(abs(x), 0.3)\n"
    every = _defined(source, "every")
    one = unchecked(every)
    for which in range(len(names) + 1):
        want = originals(every, ["x", "which"], [(x, which) for x in rows.tolist()])
        good = [
            (x, done[1])
            for x, done in zip(rows.tolist(), want, strict=False)
            if done and done[0] == "returns"
        ]
        found = one(pa.array([x for x, _ in good]), pa.array([which] * len(good), pa.int64())).to_pylist()
        wrong = [
            (x, value, have) for (x, value), have in zip(good, found, strict=True) if not same(value, have)
        ]
        assert wrong == [], [*names, "the rest"][which]


def _defined(source: str, name: str) -> Any:
    import linecache

    file = f"<{name} of a test>"
    linecache.cache[file] = (len(source), None, source.splitlines(keepends=True), file)
    scope: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(source, file, "exec", dont_inherit=True), scope)
    return scope[name]
