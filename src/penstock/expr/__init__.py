"""What a feature means, with no engine in sight.

`types` are the types a value can have, `ops` is the one table of operations, `nodes` the trees made of them,
`build` and `words` what users write, `check` holds a tree against columns, and `show` writes it as text and as
JSON. How a tree is computed is `penstock.backends`' business.
"""
