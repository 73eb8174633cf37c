"""Files, charts and images that a site fetches: which ones, from which address, at which digest.

`listing`, `lock`, `naming` and `resolve` decide without any network; `web`, `registry`, `pin` and
`gather` fetch, and compare the content with the lock.
"""
