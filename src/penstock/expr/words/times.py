"""Methods of dates and timestamps. Where a timestamp is an instant, say in which zone: "UTC", or "Europe/Berlin"."""

from __future__ import annotations

from typing import TYPE_CHECKING

from penstock.expr.words.base import Words

if TYPE_CHECKING:
    from penstock.expr.nodes import Expression


class Times(Words):
    """What dates and timestamps can do."""

    __slots__ = ()

    def _field(self, op: str, zone: str | None) -> Expression:
        return self._call(op, params={} if zone is None else {"zone": zone})

    def epoch_seconds(self) -> Expression:
        """Seconds since 1970-01-01, with their fraction; a date or a timestamp without zone as if it were in UTC."""
        return self._call("epoch_seconds")

    def seconds_since(self, earlier: object) -> Expression:
        """Seconds, with their fraction, from another time of the same type to this one.

        >>> from penstock.expr.build import col
        >>> col("left").seconds_since(col("came")) / 3600
        col('left').seconds_since(col('came')) / 3600
        """
        return self._call("seconds_between", earlier)

    def year(self, zone: str | None = None) -> Expression:
        """The year."""
        return self._field("year", zone)

    def month(self, zone: str | None = None) -> Expression:
        """The month, from 1 to 12."""
        return self._field("month", zone)

    def day(self, zone: str | None = None) -> Expression:
        """The day of the month, from 1."""
        return self._field("day", zone)

    def weekday(self, zone: str | None = None) -> Expression:
        """The day of the week; Monday is 0."""
        return self._field("weekday", zone)

    def day_of_year(self, zone: str | None = None) -> Expression:
        """The day of the year, from 1."""
        return self._field("day_of_year", zone)

    def hour(self, zone: str | None = None) -> Expression:
        """The hour, from 0 to 23.

        >>> from penstock.expr.build import col
        >>> col("at").hour("Europe/Berlin").cyclic(24).args[0].args[0].args[0]
        col('at').hour('Europe/Berlin')
        """
        return self._field("hour", zone)

    def minute(self, zone: str | None = None) -> Expression:
        """The minute, from 0 to 59."""
        return self._field("minute", zone)

    def second(self, zone: str | None = None) -> Expression:
        """The second, from 0 to 59, without its fraction."""
        return self._field("second", zone)
