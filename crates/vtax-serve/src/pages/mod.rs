//! The pages.

pub(crate) mod assets;
pub(crate) mod history;
pub(crate) mod list;
pub(crate) mod run;
pub(crate) mod shell;
pub(crate) mod start;
