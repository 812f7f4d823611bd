"""`python -m orbitmq` is the command `orbitmq`."""

import sys

from orbitmq.cli.main import main

if __name__ == "__main__":
    sys.exit(main())
