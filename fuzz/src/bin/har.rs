//! HTTP archives: whatever one holds, what is made of it is a plan that can be read.
#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_plan::har::{Options, import};

fuzz_target!(|data: &[u8]| {
    let options = Options { name: "fuzz".to_owned(), expect: true };
    let Ok(imported) = import(data, &options) else { return };
    let read = vtax_plan::parse("imported", imported.plan.as_bytes(), &[] as &[&str]);
    assert!(read.is_ok(), "{}", imported.plan);
});
