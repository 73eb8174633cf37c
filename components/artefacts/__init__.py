"""What a site brings from elsewhere: which files, charts and images, from where, and which exactly.

`listing`, `lock`, `naming`, `resolve` and `bundle` decide and know no network; `web`, `registry`,
`charts`, `pin`, `gather` and `store` fetch, and compare what came with the lock.
"""
