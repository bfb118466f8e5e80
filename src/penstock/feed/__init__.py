"""From blocks on storage to a busy device: datasets, and loaders of them.

`dataset` is what users hold, `opening` gives it, `loaders` makes a `loader` of it for each framework. A loader's
`epoch` is what runs: `plan` says which rows come when, `reading` fetches them, `memory` (the host's) and `cuda` (a
GPU's) hold and gather them, and `places` chooses between those two. `frameworks` turns arrays into tensors. `follow`
is an epoch over a dataset that is still being written, `checkpoint` saves a training with its loader's place.
"""
