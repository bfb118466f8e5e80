"""A training saved as one folder, whole or not at all: model, optimizer and the loader's place.

`checkpoint` is what users call, `folder` makes it atomic, `states` turns objects into files and back, `arrays` lays
tensors down.
"""
