"""Windows of rows in memory, and the gather out of them.

`arena` says what that is, and `host_arena` does it in host memory: `ragged_slots` are its ragged tensors, `row_loops`
its loops, `native_loops` the same as machine code. Where rows lie already, as long as an epoch, slots hold their order
alone: in a `cache`, or in maps of the shards (`mapped`, which `leases` keep from changing).
"""
