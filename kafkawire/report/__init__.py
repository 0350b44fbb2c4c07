"""The HTML report of an audit: one file that loads nothing and is readable without its script.

```python
html = report.render(audit)              # rows.Audit -> text of an HTML document
```
"""

from kafkawire.report.page import render

__all__ = ["render"]
