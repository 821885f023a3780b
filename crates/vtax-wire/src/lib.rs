//! Protocol codecs without I/O.
