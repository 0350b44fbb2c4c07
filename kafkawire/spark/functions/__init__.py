"""Columns and tables of messages from columns of bytes, and back."""
