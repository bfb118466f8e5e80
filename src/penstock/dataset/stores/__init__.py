"""The kinds of storage behind `penstock.dataset.store`: local files, object stores, and whatever pyarrow reaches.

`target` is the half that executors run: it writes with pyarrow alone. `terms` holds the words all kinds share.
"""
