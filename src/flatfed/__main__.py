"""`python -m flatfed` is the command line."""

from flatfed.cli.main import main

if __name__ == "__main__":
    main()
