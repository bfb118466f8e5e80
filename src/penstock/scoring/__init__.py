"""A model over rows, in Spark's Python workers: rows to batches, batches to the device, results to columns.

`task.score` is the function of `mapInArrow`; a `job.Job` says all that it needs. `rows` packs rows, `batches` cuts
them to size, `loading` loads a model, `calls` knows how each kind is called, `cuda` overlaps copies with computing,
`results` checks what came back, `once` keeps models between tasks. All is shipped with the job, by value: executors
need pyarrow, NumPy, and what the model itself needs. The driver's side is `penstock.jobs.predict`.
"""
