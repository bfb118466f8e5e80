"""`penstock demo`: the whole way on real data, from tables in Spark to a trained model that scores on Spark again.

Which flights out of New York arrive late? `story` tells it in stages (`preparing`, `learning`, `scoring`, `closing`);
`acts` is the code that is shown while it runs, as a user would write it; `torch_model` and `keras_model` hold the two
models. `flights` reads the tables, `serving` scores without a JVM, `ranking` is the measure; `run` is what stages hand
on, `screen` and `folder` are where output and files go, and `interrupts` is what Ctrl-C does.
"""
