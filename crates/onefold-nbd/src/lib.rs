//! Door: the NBD protocol without I/O, and one server for any block device.
