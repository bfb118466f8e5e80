"""Which texts Python's int() and float() take, as patterns for texts without white space around and with plain digits.

Underscores may stand between digits. `WHITE_AROUND` is the white space they ignore, which is less than str.strip
takes away; digits of other scripts are in `penstock.expr.characters`. Used by the kernels of
`penstock.expr.ops.python_texts`.
"""

from __future__ import annotations

from penstock.expr.patterns import WHITE

WHITE_AROUND = "".join(character for character in WHITE if not "\x1c" <= character <= "\x1f")
_DIGITS = "[0-9]+(_[0-9]+)*"
INT_TEXT = rf"\A[+\-]?{_DIGITS}\z"
FLOAT_TEXT = rf"\A[+\-]?({_DIGITS}(\.({_DIGITS})?)?|\.{_DIGITS})([eE][+\-]?{_DIGITS})?\z"
FLOAT_WORD = r"\A[+\-]?([iI][nN][fF]([iI][nN][iI][tT][yY])?|[nN][aA][nN])\z"
