"""The HTML report of an audit, or of the offsets of a partition: one file that loads nothing. It is readable
without its script.

```python
html = report.render(audit)              # rows.Audit -> text of an HTML document
html = report.render_offsets(offsets.explain(replica))
```
"""

from kafkawire.report.page import render, render_offsets

__all__ = ["render", "render_offsets"]
