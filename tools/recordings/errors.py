"""What can go wrong while a cluster is recorded."""


class RecordingError(Exception):
    """A broker or a client did not do what the recording needs, or the recording is too large."""
