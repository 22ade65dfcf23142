"""The command ``lssvm``, which is also ``python -m lssvm``."""

import sys


def run() -> None:
    """Run the program; an interrupt while it is imported leaves no traceback."""
    try:
        from .cli import main
    except KeyboardInterrupt:
        sys.exit(130)
    main(prog_name="lssvm")


if __name__ == "__main__":
    run()
