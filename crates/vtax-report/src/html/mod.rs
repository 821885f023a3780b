//! `report.html`: one self-contained page.

pub(crate) mod page;
pub(crate) mod parts;
mod top;
