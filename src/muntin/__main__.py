"""`python -m muntin`: the command line, where `muntin` itself is not on the path."""

from muntin.cli import main

main()
