"""Runs of rows from storage to wherever they go: `stages` has the threads, `source` the files, `limits` counts them."""
