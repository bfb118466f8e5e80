"""Named tensors out of columns: declared once, fitted in a few aggregates, computed by any engine with the same values.

`recipe` is what users write, `learning` what each operation asks of data and what it becomes, `fitting` the way from
one to the other, `fitted` what they hold then; `storage` keeps it as JSON, `report` says what was learned, `module` is
its torch form.
"""
