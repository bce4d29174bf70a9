//! Room: what deduplication and compression would save on files, folders, images and devices.
