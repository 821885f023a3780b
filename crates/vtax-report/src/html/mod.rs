//! `report.html`: one self-contained page.

pub(crate) mod page;
pub(crate) mod parts;
pub(crate) mod table;
mod top;
