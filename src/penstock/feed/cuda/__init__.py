"""Windows of rows in a GPU's memory.

`arena` is the arena there, and `cache` a dataset kept there. A reader cuts runs of rows into `pieces` that pass through
pinned memory, `native_reads` without the interpreter; the driver is called through `calls`. `windows` computes on the
device which rows to gather, out of tables that `sends` brings over. `batch_tensors` finds the tensors in a batch.
"""
