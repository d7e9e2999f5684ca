"""The characters that values stand for: those that .NET writes."""

from decimal import Decimal
from uuid import UUID

import pytest

from tiercel.nbfx import DateTime, QName, Single, TimeSpan, UniqueId, Value, Zone, text_of
from tiercel.nbfx.text_records import pack_decimal

GUID = UUID("00112233-4455-6677-8899-aabbccddeeff")


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ("a", "a"),
        (True, "true"),
        (-5, "-5"),
        (1.5, "1.5"),
        (1e14, "100000000000000"),
        (1e15, "1E+15"),
        (0.0001, "0.0001"),
        (0.00001, "1E-05"),
        (0.1 + 0.2, "0.30000000000000004"),
        (5e-324, "4.94065645841247E-324"),
        (1234567890123456.7, "1234567890123456.8"),
        (-0.0, "-0"),
        (float("nan"), "NaN"),
        (float("inf"), "INF"),
        (float("-inf"), "-INF"),
        (Single(0.1), "0.1"),
        (Single(16777216), "16777216"),
        (Single(1e10), "1E+10"),
        (Single(6.103515625e-05), "6.10351563E-05"),
        (Decimal("-1.10"), "-1.10"),
        (Decimal("-0.00"), "0.00"),
        (Decimal("1E+3"), "1000"),
        (b"\x01\x02\x03", "AQID"),
        ((1, True, "x"), "1 true x"),
        (GUID, "00112233-4455-6677-8899-aabbccddeeff"),
        (UniqueId(GUID), "urn:uuid:00112233-4455-6677-8899-aabbccddeeff"),
        (QName("b", "Order"), "b:Order"),
        (DateTime(0), "0001-01-01T00:00:00"),
        (DateTime(1, Zone.UTC), "0001-01-01T00:00:00.0000001Z"),
        (DateTime(10_000_000, Zone.LOCAL), "0001-01-01T00:00:01+00:00"),
        (TimeSpan(0), "PT0S"),
        (TimeSpan(-937_840_050_000), "-P1DT2H3M4.005S"),
        (TimeSpan(600_000_000), "PT1M"),
        (TimeSpan(864_000_000_000), "P1D"),
    ],
)
def test_text(value: Value, text: str) -> None:
    assert text_of(value) == text


@pytest.mark.parametrize("value", ["1E-29", "79228162514264337593543950336", "1E+40", "NaN", "Infinity"])
def test_decimals_that_do_not_fit(value: str) -> None:
    with pytest.raises(ValueError, match="decimal"):
        pack_decimal(Decimal(value))
