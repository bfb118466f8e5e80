"""Rows in flight: from Arrow batches in Spark's Python workers to tensors' memory in the driver.

Read in this order: `plan` (what crosses and what it becomes), `cast` and `pack` (a batch becomes row-major
arrays), `frames` (how they are laid on a socket or into a blob), `send` (the executor's half), `arena`,
`assembly` and `receive` (the driver's half). Nothing here knows Spark; what executors run is shipped to them with
the job and needs only NumPy and pyarrow there.
"""
