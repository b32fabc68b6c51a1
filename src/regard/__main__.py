"""`python -m regard` is the `regard` command."""

from regard.cli.main import run

run()
