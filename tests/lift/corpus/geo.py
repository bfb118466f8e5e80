"""Geography: distances, bearings, tiles, boxes."""

from __future__ import annotations

import math

RADIUS_KM = 6371.0088


def haversine(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    p1, p2 = math.radians(lat1), math.radians(lat2)
    dp = p2 - p1
    dl = math.radians(lon2 - lon1)
    a = math.sin(dp / 2) ** 2 + math.cos(p1) * math.cos(p2) * math.sin(dl / 2) ** 2
    return 2 * RADIUS_KM * math.asin(math.sqrt(a))


def bearing(lat1: float, lon1: float, lat2: float, lon2: float) -> float:
    dl = math.radians(lon2 - lon1)
    p1 = math.radians(lat1)
    p2 = math.radians(lat2)
    y = math.sin(dl) * math.cos(p2)
    x = math.cos(p1) * math.sin(p2) - math.sin(p1) * math.cos(p2) * math.cos(dl)
    return (math.degrees(math.atan2(y, x)) + 360) % 360


def wrap_longitude(lon: float) -> float:
    return (lon + 180) % 360 - 180


def valid_point(lat: float | None, lon: float | None) -> bool:
    return lat is not None and lon is not None and -90 <= lat <= 90 and -180 <= lon <= 180


def in_box(lat: float, lon: float) -> bool:
    return 40.4774 <= lat <= 40.9176 and -74.2591 <= lon <= -73.7004


def grid_cell(lat: float, lon: float) -> str:
    return f"{math.floor(lat)}:{math.floor(lon)}"


def hemisphere(lat: float) -> str:
    if lat == 0:
        return "equator"
    return "N" if lat > 0 else "S"


def tile_x(lon: float, zoom: int) -> int:
    return int((lon + 180.0) / 360.0 * 2**zoom)


def manhattan(x1: float, y1: float, x2: float, y2: float) -> float:
    return abs(x1 - x2) + abs(y1 - y2)


def quadrant(dx: float, dy: float) -> int:
    if dx >= 0 and dy >= 0:
        return 1
    if dx < 0 and dy >= 0:
        return 2
    if dx < 0:
        return 3
    return 4


def dms_to_decimal(degrees: int, minutes: int, seconds: float, direction: str) -> float:
    value = degrees + minutes / 60 + seconds / 3600
    return -value if direction in ("S", "W") else value


def compass(angle: float) -> str:
    names = ["N", "NE", "E", "SE", "S", "SW", "W", "NW"]
    return names[int((angle % 360 + 22.5) // 45) % 8]


def coordinates_text(lat: float, lon: float) -> str:
    return f"{lat:.4f},{lon:.4f}"


def mercator_y(lat: float) -> float:
    return math.log(math.tan(math.pi / 4 + math.radians(lat) / 2))
