//! All tests of this crate in one program: linking one for each file takes longer than running them.

mod bounds;
mod desktop;
mod ft;
mod ftp;
mod generators;
mod golden;
mod hostile;
mod http2;
mod journal2;
mod network;
mod pages;
mod pictures;
mod recompute;
mod report;
mod script;
mod sip;
mod storage;
mod study;
mod support;
mod systems;
mod verdicts;
