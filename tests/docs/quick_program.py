"""The program `tiercel` for a session, without the half second that Python takes to load it each time.

A process that has loaded everything waits on a socket; what stands first on the PATH as `tiercel` hands it
the words, the folder, the environment and the three files of a command, and a fork of it runs that command.

    python quick_program.py SOCKET
"""

import json
import os
import socket
import sys
from importlib import import_module
from pathlib import Path

_SHIM = """\
#!{python} -IS
import json, os, socket, sys
if sys.argv[1:2] == ["serve"] or sys.argv[1:3] == ["pipeline", "run"]:  # it gets the signals meant for it
    os.execv({real!r}, [{real!r}, *sys.argv[1:]])
line = socket.socket(socket.AF_UNIX)
line.connect({address!r})
order = json.dumps([sys.argv[1:], os.getcwd(), dict(os.environ)]).encode()
socket.send_fds(line, [len(order).to_bytes(4, "big")], [0, 1, 2])
line.sendall(order)
sys.exit(int(line.recv(4) or b"70"))
"""


def write_program(directory: Path, address: Path) -> None:
    """The `tiercel` for the PATH."""
    shim = directory / "tiercel"
    real = str(Path(sys.executable).with_name("tiercel"))
    shim.write_text(_SHIM.format(python=sys.executable, real=real, address=str(address)), "utf-8")
    shim.chmod(0o755)


def serve(address: str) -> None:
    from tiercel.cli.group import PANELS  # noqa: PLC0415  # not in a process that only writes the shim

    for module in {module for verbs in PANELS.values() for module in verbs.values()}:
        import_module(f"tiercel.cli.{module}")
    with socket.socket(socket.AF_UNIX) as listener:
        listener.bind(address)
        listener.listen()
        while True:
            line, _ = listener.accept()
            with line:
                if os.fork() == 0:
                    listener.close()
                    _wait_for(line)
            _reap()


def _wait_for(line: socket.socket) -> None:
    """A process that waits for the one that runs the command, and tells how it ended."""
    head, files, *_ = socket.recv_fds(line, 4, 3)
    if not head:  # somebody only looked whether we are here
        os._exit(0)
    words, folder, environment = json.loads(_read(line, int.from_bytes(head, "big")))
    child = os.fork()
    if child == 0:
        for number, each in enumerate(files):
            os.dup2(each, number)
        os.closerange(3, 256)
        os.chdir(folder)
        os.environ.clear()
        os.environ.update(environment)
        _run(words)
    _, status = os.waitpid(child, 0)
    line.sendall(b"%d" % (os.waitstatus_to_exitcode(status) % 256))
    os._exit(0)


def _run(words: list[str]) -> None:
    from tiercel import cli  # noqa: PLC0415  # loaded already

    # What there was knows of the files as they were, seekable for instance.
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(each, mode) for each, mode in enumerate("rww"))
    sys.argv = ["tiercel", *words]
    code: object = 1
    try:
        code = cli.main()
    except SystemExit as end:
        code = end.code
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code if isinstance(code, int) else int(code is not None))


def _read(line: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        data += line.recv(size - len(data))
    return data


def _reap() -> None:
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


if __name__ == "__main__":
    serve(sys.argv[1])
