"""The types of records: [MC-NBFX] 2.1.1. A text record with the lowest bit set ends its element too."""

from typing import Final

END_ELEMENT: Final = 0x01
COMMENT: Final = 0x02
ARRAY: Final = 0x03
SHORT_ATTRIBUTE: Final = 0x04
ATTRIBUTE: Final = 0x05
SHORT_DICTIONARY_ATTRIBUTE: Final = 0x06
DICTIONARY_ATTRIBUTE: Final = 0x07
SHORT_XMLNS: Final = 0x08
XMLNS_ATTRIBUTE: Final = 0x09
SHORT_DICTIONARY_XMLNS: Final = 0x0A
DICTIONARY_XMLNS: Final = 0x0B
PREFIX_DICTIONARY_ATTRIBUTE_A: Final = 0x0C
PREFIX_ATTRIBUTE_A: Final = 0x26
LAST_ATTRIBUTE: Final = 0x3F
SHORT_ELEMENT: Final = 0x40
ELEMENT: Final = 0x41
SHORT_DICTIONARY_ELEMENT: Final = 0x42
DICTIONARY_ELEMENT: Final = 0x43
PREFIX_DICTIONARY_ELEMENT_A: Final = 0x44
PREFIX_ELEMENT_A: Final = 0x5E
LAST_ELEMENT: Final = 0x77

ZERO: Final = 0x80
ONE: Final = 0x82
FALSE: Final = 0x84
TRUE: Final = 0x86
INT8: Final = 0x88
INT16: Final = 0x8A
INT32: Final = 0x8C
INT64: Final = 0x8E
FLOAT: Final = 0x90
DOUBLE: Final = 0x92
DECIMAL: Final = 0x94
DATE_TIME: Final = 0x96
CHARS8: Final = 0x98
CHARS16: Final = 0x9A
CHARS32: Final = 0x9C
BYTES8: Final = 0x9E
BYTES16: Final = 0xA0
BYTES32: Final = 0xA2
START_LIST: Final = 0xA4
END_LIST: Final = 0xA6
EMPTY: Final = 0xA8
DICTIONARY: Final = 0xAA
UNIQUE_ID: Final = 0xAC
TIME_SPAN: Final = 0xAE
UUID_TEXT: Final = 0xB0
UINT64: Final = 0xB2
BOOL: Final = 0xB4
UNICODE_CHARS8: Final = 0xB6
UNICODE_CHARS16: Final = 0xB8
UNICODE_CHARS32: Final = 0xBA
QNAME_DICTIONARY: Final = 0xBC
LAST_TEXT: Final = 0xBD

LETTERS: Final = "abcdefghijklmnopqrstuvwxyz"

NAMES: Final[dict[int, str]] = {
    code: name.title().replace("_", "") for name, code in sorted(globals().items()) if isinstance(code, int)
}


def record_name(record: int) -> str:
    """What an error calls a record."""
    if PREFIX_DICTIONARY_ATTRIBUTE_A <= record < PREFIX_ATTRIBUTE_A:
        return f"PrefixDictionaryAttribute{LETTERS[record - PREFIX_DICTIONARY_ATTRIBUTE_A].upper()}"
    if PREFIX_ATTRIBUTE_A <= record <= LAST_ATTRIBUTE:
        return f"PrefixAttribute{LETTERS[record - PREFIX_ATTRIBUTE_A].upper()}"
    if PREFIX_DICTIONARY_ELEMENT_A <= record < PREFIX_ELEMENT_A:
        return f"PrefixDictionaryElement{LETTERS[record - PREFIX_DICTIONARY_ELEMENT_A].upper()}"
    if PREFIX_ELEMENT_A <= record <= LAST_ELEMENT:
        return f"PrefixElement{LETTERS[record - PREFIX_ELEMENT_A].upper()}"
    if ZERO <= record <= LAST_TEXT and record & 0xFE in NAMES:
        return NAMES[record & 0xFE].removesuffix("Text") + "Text" + ("WithEndElement" if record & 1 else "")
    return NAMES.get(record, f"record 0x{record:02X}")
