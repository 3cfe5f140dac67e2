"""Strings that want to be more than text."""

#: What a cell of a CSV can hold: it must be shown, and never be obeyed.
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</script><script>document.title='owned'</script>",
    "'-alert(1)-' {{ 7 * 7 }} {% raw %}",
    "</title></style><h1>owned</h1>",
    "line\u2028separator \u2029 & &lt;b&gt; | a | b [x](javascript:alert(1)) `c`",
)
