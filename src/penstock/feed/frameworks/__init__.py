"""Host arrays become a framework's tensors, on its device.

One file per framework: `numpy`, `torch`, `tensorflow`, `jax`. Each offers the same three functions: `check` (can this
device and these dtypes be had?), `free_bytes` (what the device has left) and `place` (arrays to tensors). On the CPU
nothing is copied. `tensorflow_batches` makes a loader a `tf.data.Dataset`, `tensorflow_strategies` one that
`tf.distribute` leaves as it is.
"""
