"""Strangers who read from a real `tiercel serve`: impacket, Samba and Wine. `make interop` runs them."""
