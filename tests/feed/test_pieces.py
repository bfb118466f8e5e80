"""Pieces of a file: every byte of every segment is read once, and copied to where it belongs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.feed.cuda.pieces import GAP, Segment, pieces


@st.composite
def segments(draw) -> list[Segment]:
    """In any order, beside each other, with padding between, or far apart."""
    found, offset, target = [], draw(st.integers(0, 100)), 0
    for _ in range(draw(st.integers(1, 5))):
        size = draw(st.integers(0, 300))
        found.append(Segment(offset, size, target))
        offset += size + draw(st.sampled_from([0, 1, 63, GAP, GAP + 1, 3 * GAP]))
        target += size + draw(st.integers(0, 9))
    return draw(st.permutations(found))


@given(segments(), st.integers(1, 3 * GAP))
def test_every_byte_once(given_segments: list[Segment], most: int) -> None:
    placed: dict[int, int] = {}
    for piece in pieces(given_segments, most):
        assert 0 < piece.size <= most
        assert piece.copies
        for tensor, target, start, size in piece.copies:
            assert start >= 0
            assert size > 0
            assert start + size <= piece.size
            segment = given_segments[tensor]
            for byte in range(size):
                where = target + byte
                assert where not in placed
                placed[where] = piece.offset + start + byte
                assert where - segment.target == placed[where] - segment.offset
    wanted = {s.target + b: s.offset + b for s in given_segments for b in range(s.size)}
    assert placed == wanted


@given(
    st.lists(st.tuples(st.integers(0, 200), st.integers(0, 300)), min_size=1, max_size=5), st.integers(1, 500)
)
def test_every_byte_of_segments_that_overlap(places: list[tuple[int, int]], most: int) -> None:
    """No writer makes such files, and an index that tells of one is refused; bytes are not lost for all that."""
    found = [Segment(offset, size, 1000 * number) for number, (offset, size) in enumerate(places)]
    copied = {
        (tensor, target + byte): piece.offset + start + byte
        for piece in pieces(found, most)
        for tensor, target, start, size in piece.copies
        for byte in range(size)
    }
    assert copied == {
        (number, each.target + byte): each.offset + byte
        for number, each in enumerate(found)
        for byte in range(each.size)
    }


def test_pieces_are_about_equal() -> None:
    block = [Segment(64, 5_200, 0), Segment(5_312, 10_400, 0), Segment(15_744, 400, 0)]
    assert [piece.size for piece in pieces(block, 8_100)] == [8_040, 8_040]


def test_what_lies_apart_is_read_apart() -> None:
    assert [piece.size for piece in pieces([Segment(0, 10, 0), Segment(GAP + 11, 10, 0)], 1 << 20)] == [
        10,
        10,
    ]
