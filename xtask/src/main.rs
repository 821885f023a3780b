//! Everything that make and CI call.

fn main() {}
