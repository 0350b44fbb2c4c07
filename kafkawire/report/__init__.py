"""The HTML report of an audit: one file, no script, nothing loaded from anywhere.

html = report.render(audit)              # rows.Audit -> text of an HTML document
"""

from kafkawire.report.page import render

__all__ = ["render"]
