"""Driver-side work on Spark, through the DataFrame API alone.

`session` finds or starts a Spark session; `settings` is what it tells a new one, `machine` what there is to
share out, `java` the Java runtime it needs. The other modules take a DataFrame and move it: into tensors,
onto storage, through a model. PySpark is imported inside functions, so
importing this package needs neither Spark nor Java, and nothing here runs on executors.
"""
