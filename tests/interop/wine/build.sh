#!/bin/sh -e
# Makes reader.exe in the directory OUT: the IDL of the specification through widl, the stubs through MinGW.
# Usage: build.sh OUT
here=$(cd "$(dirname "$0")" && pwd)
cp "$here"/reader.c "$here"/ms-dtyp.h "$here"/../idl/*.idl "$1"
cd "$1"
# The runtime of Wine 8 reads a 16-bit enum and then the next number right behind it, where NDR has two bytes of padding
# (MQRR trap 2). As a 32-bit enum it is the same bytes.
sed -i 's/^    typedef enum$/    typedef [v1_enum] enum/' remote_read.idl
widl -Os -c -h --win64 remote_read.idl
widl -h --win64 ms-mqmq.idl
x86_64-w64-mingw32-gcc -O1 -w -DUSE_COMPILER_EXCEPTIONS -I. -o reader.exe reader.c remote_read_c.c -lrpcrt4
