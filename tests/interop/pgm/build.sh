#!/bin/sh
# Compiles the programs that use OpenPGM, into build/pgm. Debian's libpgm 5.3.128 needs csumfix.so: its checksum
# crashes on some alignments.
mkdir -p build/pgm
here=tests/interop/pgm
if ! { gcc -O2 -shared -fPIC -o build/pgm/csumfix.so $here/csumfix.c &&
    gcc -O2 -I/usr/include/pgm-5.3 -o build/pgm/pgmtool $here/pgmtool.c -lpgm; } >/dev/null 2>&1; then
    rm -f build/pgm/pgmtool
    echo "interop: OpenPGM is not installed; its tests will be skipped"
fi
