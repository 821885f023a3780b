//! Any bytes as a plan, and lines after a NUL as overrides: a plan or errors with places, never a panic.

#![no_main]

use libfuzzer_sys::fuzz_target;
use vtax_plan::{PlanErrors, parse};

fuzz_target!(|data: &[u8]| {
    let end = data.iter().position(|b| *b == 0).unwrap_or(data.len());
    let (plan, rest) = data.split_at(end);
    let rest = String::from_utf8_lossy(rest.get(1..).unwrap_or_default());
    let overrides: Vec<&str> = rest.lines().take(8).collect();
    match parse("plan.yaml", plan, &overrides) {
        Ok(plan) => {
            assert!(!plan.cells.is_empty() && !plan.measures.is_empty());
            let ids: std::collections::HashSet<_> = plan.cells.iter().map(|c| &c.id).collect();
            assert_eq!(ids.len(), plan.cells.len());
        }
        Err(PlanErrors::Invalid(errors)) => {
            assert!(errors.iter().all(|e| e.line > 0 && e.column > 0 && !e.message.is_empty()));
            assert!(!errors.to_text(true).is_empty());
        }
        Err(other) => panic!("{other}"),
    }
});
