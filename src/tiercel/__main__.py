"""`python -m tiercel`: the same as the command `tiercel`."""

import sys

from tiercel.cli import main

if __name__ == "__main__":
    sys.exit(main())
