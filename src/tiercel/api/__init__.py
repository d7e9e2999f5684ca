"""The HTTP API, `/api/v1`: everything that the command line does, for scripts and other languages.

`routes` has one file per noun; each is thin and calls `tiercel.admin`. `app.build` makes the application. The
framework is slow to load, so nothing imports it before the first request. The data endpoint shares this
folder's plumbing: sockets, authorization, parameters, problems.
"""
