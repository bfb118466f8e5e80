"""Datasets on storage: shards, their index, committed versions. Neither Spark nor a framework is needed here.

Start at `manifest` for what lies where, at `shards` for how bytes are laid, at `snapshot` for one committed version.
`docs/format.md` describes the same for readers in other languages.
"""
