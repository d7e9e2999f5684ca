#!/bin/sh
# Installs what the strangers of tests/interop need, as far as this machine lets us; what is missing is skipped later.
# Usage: prepare.sh PYTHON BIN, the folder of .venv with its programs
python=${1:-python3}
bin=${2:-.venv/bin}
venv=.venv-interop
lock=requirements/interop.lock

if [ ! -e $venv/.ready ] || [ $lock -nt $venv/.ready ]; then
    if "$python" -m venv $venv &&
        $venv/bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement $lock; then
        touch $venv/.ready
    else
        echo "interop: impacket could not be installed from PyPI; its tests will be skipped"
        rm -rf $venv
    fi
fi

# The program that each package is wanted for, and the package of Debian.
missing=""
for pair in wine:wine wine:wine64 widl:wine64-tools x86_64-w64-mingw32-gcc:gcc-mingw-w64-x86-64-win32 \
    ntlm_auth:winbind rpcclient:smbclient curl:curl krb5kdc:krb5-kdc kadmin.local:krb5-admin-server kinit:krb5-user \
    krb5-config:libkrb5-dev gcc:gcc ip:iproute2 nft:nftables tshark:tshark; do
    PATH=$PATH:/usr/sbin command -v "${pair%%:*}" >/dev/null || missing="$missing ${pair#*:}"
done
[ -e /usr/include/pgm-5.3/pgm/pgm.h ] || missing="$missing libpgm-dev libc6-dev"
if [ -z "$missing" ]; then
    :
elif ! command -v apt-get >/dev/null; then
    echo "interop: there is no apt-get to install$missing; what needs them will be skipped"
elif [ "$(id -u)" != 0 ]; then
    echo "interop: only root can install$missing; what needs them will be skipped. Say: sudo apt-get install$missing"
elif ! { apt-get update -qq && DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $missing; } >/dev/null; then
    echo "interop: apt-get could not install$missing; what needs them will be skipped"
fi

# The extra tiercel[kerberos], which is built with the packages above.
if ! $bin/pip install --quiet --disable-pip-version-check --require-hashes --requirement requirements/kerberos.lock; then
    echo "interop: tiercel[kerberos] could not be installed; its tests will be skipped"
fi

# nginx is only unpacked: installed, it would start a server at port 80.
if ! command -v nginx >/dev/null && [ ! -x build/nginx/usr/sbin/nginx ]; then
    mkdir -p build/nginx
    if ! (cd build/nginx && apt-get download -qq nginx && dpkg-deb -x nginx_*.deb . && rm nginx_*.deb) >/dev/null 2>&1; then
        echo "interop: nginx could not be downloaded from Debian; its tests will be skipped"
    fi
fi
sh tests/interop/pgm/build.sh
exit 0
