"""Strings that could be mistaken for markup or code."""

#: Possible contents of a CSV cell: they must be shown as text and never executed.
HOSTILE = (
    "<script>document.title='owned'</script>",
    '"><img src=x onerror="document.title=\'owned\'">',
    "</script><script>document.title='owned'</script>",
    "'-alert(1)-' {{ 7 * 7 }} {% raw %}",
    "</title></style><h1>owned</h1>",
    "line\u2028separator \u2029 & &lt;b&gt; | a | b [x](javascript:alert(1)) `c`",
)
