"""An epoch over a dataset that is still being written.

`joining` chooses the write, `following` is what a training sees of it, `epoch` reads the parts as they land, and
`loader` goes on with ordinary epochs when the write has ended.
"""
