"""``python -m lssvm`` is the command ``lssvm``."""

from .cli import main

main(prog_name="lssvm")
