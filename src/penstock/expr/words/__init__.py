"""The methods and operators of an expression, by family: `numbers`, `texts`, `times`, `lists`.

Each is one line that names an operation of `penstock.expr.ops`; `penstock.expr.nodes.Expression` inherits them all.
"""
