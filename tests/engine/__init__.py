"""Tests of the engine: [MS-MQDMPR] section by section, driven over real stores with an explicit clock."""
