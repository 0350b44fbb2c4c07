"""What can go wrong while log directories are made."""


class LogdirsError(Exception):
    """A broker or a client did not do what the recipe needs."""
