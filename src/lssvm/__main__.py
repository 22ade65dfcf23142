"""``python -m lssvm`` is the command ``lssvm``."""

from .cli import main

if __name__ == "__main__":
    main(prog_name="lssvm")
