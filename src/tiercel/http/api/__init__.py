"""`/api/v1`: everything that the command line does, for scripts and other languages.

One file of routes per noun, each thin: what is done stands in the folder above. `app.build` makes the
application; nobody imports it before the first request comes, for the framework takes its time to load.
"""
