//! All tests of this crate but those in a browser, in one program.

mod hostile;
mod index;
mod page;
mod requests;
mod start;
mod support;
