"""Tests of remote procedure calls. `strategies` draws any PDU, `scripted` plays the peers."""
