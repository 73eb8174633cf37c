"""Files, charts and images that a site fetches: which ones, from which address, at which digest.

`listing`, `lock`, `naming`, `resolve` and `bundle` decide without any network; `web`, `registry`,
`charts`, `pin`, `gather` and `store` fetch, and compare the content with the lock.
"""
