"""Which rows come when, as pure functions: no files, no clock, no threads.

`order` is the one order of an epoch, `route` a rank's way through it, `budget` shares memory out along that, and
`assembly` says which rows of which windows the next steps are made of.
"""
