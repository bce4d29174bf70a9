//! Ground floor: address and size types, the storage contracts, their conformance suites and wrappers.
