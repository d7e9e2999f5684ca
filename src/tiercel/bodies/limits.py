"""How much is made of a hostile body: it has at most 4 MiB, and these keep the value in proportion."""

# Nesting of elements, arrays and objects. Readers recurse: six frames of Python's thousand for a level.
DEPTH_MAX = 64
# Elements, members and items of one body: 4 MiB hold half of it as numbers, but 20 bytes can promise 2**31.
ITEMS_MAX = 1_000_000
# Characters of one value. An object graph may use one long text many times, and every use is written out.
CHARACTERS_MAX = 16_000_000
