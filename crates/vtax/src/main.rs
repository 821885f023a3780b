//! The vtax command.

fn main() {}
